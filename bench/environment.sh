# SPDX-License-Identifier: Apache-2.0
# environment FOLDER REQUIREMENTS: a virtual environment of Python with these packages, made anew when the list changes.
environment() {
  local stamp=$1/.requirements
  cmp -s "$2" "$stamp" && return
  echo "$0: setting up a Python environment in $1"
  rm -rf "$1"
  python3 -m venv "$1" || { echo "$0: python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
  "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
  cp "$2" "$stamp"
}
