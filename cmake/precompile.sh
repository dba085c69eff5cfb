#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles precompiled headers as asked, and writes a checksum of their text beside them (NAME.sum): two compilations of
# one text give different files, and a compiler cache that knows them by the checksum has the objects of both.
set -e
"$@"
count=$#
while [ "$count" -gt 0 ]; do  # the same words without the output, and without what Clang does not take with -E
  if [ "$1" = -o ]; then
    out=$2
    shift 2
    count=$((count - 2))
  elif [ "$1 $2" = "-Xclang -emit-pch" ]; then
    shift 2
    count=$((count - 2))
  elif [ "$1" = -c ]; then
    shift
    count=$((count - 1))
  else
    set -- "$@" "$1"
    shift
    count=$((count - 1))
  fi
done
"$@" -E -o "$out.text"
sha256sum < "$out.text" > "$out.sum"
rm "$out.text"
