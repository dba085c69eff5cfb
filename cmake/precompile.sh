#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles precompiled headers as asked, and writes a checksum of their text beside them (NAME.sum): two compilations of
# one text give different files, and a compiler cache that knows them by the checksum has the objects of both.
set -e
"$@"
count=$#
while [ "$count" -gt 0 ]; do  # the same words without the output
  if [ "$1" = -o ]; then
    out=$2
    shift 2
    count=$((count - 2))
  else
    set -- "$@" "$1"
    shift
    count=$((count - 1))
  fi
done
"$@" -E -o "$out.text"
sha256sum < "$out.text" > "$out.sum"
rm "$out.text"
