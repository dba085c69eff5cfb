// SPDX-License-Identifier: Apache-2.0
// How tests and the runner talk: numbers of 64 bits, and bytes behind their count. Both sides are
// little-endian.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace tenon::test {

/// What is sent at once.
class Message {
 public:
  Message& put(int64_t v) {
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
    return *this;
  }
  Message& put(const void* data, size_t size) {
    put(int64_t(size));
    if (size) bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }
  Message& put(const std::string& text) { return put(text.data(), text.size()); }
  /// False when the other side is gone.
  bool send(int fd) const {
    for (size_t at = 0; at < bytes_.size();) {
      const ssize_t n = write(fd, bytes_.data() + at, bytes_.size() - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return false;
      at += size_t(n);
    }
    return true;
  }

 private:
  std::string bytes_;
};

/// Reads what was put, in its order; `good` is false once the other side is gone.
class Incoming {
 public:
  explicit Incoming(int fd) : fd_(fd) {}
  int64_t number() {
    int64_t v = 0;
    read_all(&v, sizeof v);
    return v;
  }
  std::string bytes() {
    const int64_t size = number();
    if (!good_ || size < 0 || size > (int64_t(1) << 32)) return {};
    std::string out(size_t(size), '\0');
    read_all(out.data(), out.size());
    return out;
  }
  bool good() const { return good_; }

 private:
  void read_all(void* to, size_t size) {
    for (size_t at = 0; good_ && at < size;) {
      const ssize_t n = read(fd_, static_cast<char*>(to) + at, size - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0)
        good_ = false;
      else
        at += size_t(n);
    }
  }
  int fd_;
  bool good_ = true;
};

/// Requests: a number of these, then what emulator.cpp sends.
enum : int64_t { kRunKernel = 1, kRunModel = 2 };

}  // namespace tenon::test
