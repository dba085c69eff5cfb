# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts under the prefix.
include(GNUInstallDirs)
