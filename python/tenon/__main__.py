# SPDX-License-Identifier: Apache-2.0
"""`python -m tenon` is the command `tenon`, in place of this process."""
import os
import sys

from tenon import _core


def command_path():
    """The command that belongs to this package: below it when installed, beside its folder in a build tree."""
    package = os.path.dirname(os.path.abspath(_core.__file__))
    for path in (os.path.join(package, "bin", "tenon"), os.path.join(package, "..", "..", "bin", "tenon")):
        if os.access(path, os.X_OK):
            return os.path.normpath(path)
    raise FileNotFoundError(f"the command `tenon` is not where the package is, {package}")


def main():
    path = command_path()
    sys.stdout.flush()
    os.execv(path, ["tenon", *sys.argv[1:]])


if __name__ == "__main__":
    main()
