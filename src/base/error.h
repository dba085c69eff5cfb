// SPDX-License-Identifier: Apache-2.0
// The two things that are thrown: a user's mistake (Error, later with diagnostics) and our own bug
// (InternalError). "Does not match" is never thrown: it is a null or an optional.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace tenon {

/// Which exit code and which C status an error becomes.
enum class ErrorKind : int {
  comparison = 1,
  usage = 2,
  model = 3,
  limit = 4,
  io = 5,
  internal = 70,
  interrupted = 130
};

/// A user's mistake: a stable code ("T0501"), a sentence, where, and what to do.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string code, std::string message, std::string location = {},
        std::string hint = {});
  ErrorKind kind;
  std::string code, message, location, hint;
};

/// Our own bug.
class InternalError : public Error {
 public:
  explicit InternalError(std::string message)
      : Error(ErrorKind::internal, "T0001", std::move(message), {},
              "this is a bug in Tenon: please report it with the command and the model") {}
};

[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string message);

/// Our own invariant. The message expression is evaluated only on failure.
#define CHECK(condition, ...)                                                          \
  do {                                                                                 \
    if (!(condition)) [[unlikely]]                                                     \
      ::tenon::check_failed(#condition, __FILE__, __LINE__, std::string(__VA_ARGS__)); \
  } while (0)

}  // namespace tenon
