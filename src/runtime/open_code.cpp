// SPDX-License-Identifier: Apache-2.0
// Code is opened by descriptor: what is opened is what was checked. The dynamic loader takes equal names, and
// equal files, for one library. So the descriptor that gave a library its name stays open as long as it is
// loaded, that of who opened the file first: else a later descriptor of the same number would lead to it.
#include "runtime/open_code.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <vector>

namespace tenon {
namespace {

struct Library {
  dev_t device;
  ino_t number;
  void* handle;
  std::shared_ptr<void> file;  ///< whose descriptor named it
  int users;
};
/// Never destroyed: artifacts may be released at the end of the process.
struct Libraries {
  std::mutex mutex;
  std::vector<Library> all;
};
Libraries& libraries() {
  static auto* const one = new Libraries;
  return *one;
}

void release(void* handle) {
  Libraries& open = libraries();
  std::lock_guard lock(open.mutex);
  const auto it = std::ranges::find(open.all, handle, &Library::handle);
  if (it == open.all.end() || --it->users > 0) return;
  dlclose(handle);  // before its descriptor is closed
  open.all.erase(it);
}

}  // namespace

OpenCode open_code(int descriptor, const std::shared_ptr<void>& file, const std::string& path) {
  Libraries& open = libraries();
  std::lock_guard lock(open.mutex);
  struct stat st{};
  const bool known = fstat(descriptor, &st) == 0;
  auto it = std::ranges::find_if(
      open.all, [&](const Library& l) { return known && l.device == st.st_dev && l.number == st.st_ino; });
  if (it == open.all.end()) {
    void* handle = dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle && access("/proc/self/fd", F_OK) != 0) {
      char* absolute = realpath(path.c_str(), nullptr);
      handle = dlopen(absolute ? absolute : path.c_str(), RTLD_NOW | RTLD_LOCAL);
      free(absolute);
    }
    if (!handle) return {};
    open.all.push_back({st.st_dev, st.st_ino, handle, file, 0});
    it = open.all.end() - 1;
  }
  ++it->users;
  return {it->handle, std::shared_ptr<void>(it->handle, release)};
}

}  // namespace tenon
