// SPDX-License-Identifier: Apache-2.0
// Artifact and Session: what is run, and one runner of it.
//
// An Artifact is immutable and shared between threads. A Session belongs to one thread at a time and owns the
// arena, the registers and the memory pool of its calls. Outputs are fresh tensors or the caller's buffers,
// never memory that a later call overwrites.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function.h"
#include "runtime/executable.h"
#include "runtime/thread_pool.h"

namespace tenon {

struct Program;  // decoded instructions (machine.h)
struct Machine;  // registers and frames of a session (machine.h)

struct ArtifactObj : Object {
  static constexpr std::string_view type_key = "Artifact";
  ArtifactObj();
  ArtifactObj(const ArtifactObj&) = delete;
  ~ArtifactObj();
  Executable executable;
  std::unique_ptr<Program> program;
  std::shared_ptr<void> keep;  ///< what the kernels' code lives in
  std::string_view image;      ///< the ELF image of a file, while `keep` lives; empty otherwise
};

struct LoadOptions {
  bool check = false;  ///< also verify the content hash of every constant
  bool copy = false;   ///< into memory: the file may then change while it is in use
  /// Packed functions that the artifact calls, before the registry is asked; null: only the registry.
  std::function<Function(const std::string&)> find_function = {};
};

class Artifact : public Ref<ArtifactObj> {
 public:
  /// Address of a kernel by symbol; null if there is none.
  using Resolver = std::function<void*(const std::string&)>;
  Artifact() = default;
  /// Checks the tables ("T0607"), resolves kernels ("T0608") and builtins ("T0609").
  static Artifact from_executable(Executable executable, const Resolver& resolver,
                                  std::shared_ptr<void> keep = {}, const LoadOptions& options = {});
  /// Opens an artifact file, or what is linked into this program under "system:NAME" ("system" when that is
  /// one). The refusals are listed in artifact.h.
  static Artifact load(const std::string& path, LoadOptions options = {});
  const Executable& executable() const { return get()->executable; }
  const VMFunction& main() const;  ///< the function named "main", or the first
  std::span<const ValueInfo> inputs() const { return main().params; }
  std::span<const ValueInfo> outputs() const { return main().results; }
  const std::string* metadata(std::string_view key) const;  ///< null if there is none

 private:
  explicit Artifact(Ref<ArtifactObj> ref) : Ref(std::move(ref)) {}
};

struct SessionOptions {
  int threads = 0;                    ///< 0: all cores this process may use
  int64_t memory_limit = 0;           ///< bytes of arena and pool tensors; 0: none
  int max_depth = 10000;              ///< nested calls of VM functions: "T0508" beyond
  int64_t max_tail_calls = 10000000;  ///< calls in a row that each return what the next one does: "T0508"
  ThreadPool* pool = nullptr;         ///< null: the process's
};

/// Called behind every kernel and builtin: its name, and its time in milliseconds.
using ProfileHook = std::function<void(std::string_view name, double ms)>;
/// One executed instruction: of which function, its number there, what it called and how long that took.
struct ProfileEvent {
  std::string_view function, callee;
  int64_t instruction = 0;
  double ms = 0, begin_ms = 0;  ///< how long, and from when on the steady clock
};

/// Called around every kernel, builtin and packed function: its name, whether it is before, what it gave
/// (behind it, where it gives something) and its arguments, whose memory is that of the run. True before a
/// call: it is left out.
using InstrumentHook = std::function<bool(std::string_view name, bool before, const Any& result,
                                          std::span<const Any> arguments)>;

class Session {
 public:
  explicit Session(Artifact artifact, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Runs `main`. Mistakes in the inputs are Errors that name the input, what is wanted and what was given:
  /// T0502 count, T0503 unknown name, T0504 data type, T0505 shape, T0506 not usable memory; limits T0507,
  /// T0508.
  std::vector<NDArray> invoke(std::span<const NDArray> inputs);
  std::vector<NDArray> invoke(std::initializer_list<NDArray> inputs) {
    return invoke(std::span(inputs.begin(), inputs.size()));
  }
  /// As above; a non-null entry of `outputs` is the caller's buffer and is written in place where that is
  /// possible, copied into otherwise. A null entry receives a fresh tensor. Makes no allocation of its own
  /// when the model is static and every output is given.
  void invoke_into(std::span<const NDArray> inputs, std::span<NDArray> outputs);
  /// Inputs by name, in any order.
  std::vector<NDArray> invoke_named(std::span<const std::pair<std::string, NDArray>> inputs);
  /// Any function of the artifact, with any values.
  Any call(std::string_view function, Arguments arguments);
  Any call(int32_t function, Arguments arguments);  ///< the same by its number

  void set_threads(int threads);
  int threads() const;
  void set_memory_limit(int64_t bytes);
  /// Bytes that count against the limit now: the arena, tensors that live, values of data types.
  int64_t memory_used() const;
  void set_profile(ProfileHook hook);                                           ///< null: off
  void set_instruction_profile(std::function<void(const ProfileEvent&)> hook);  ///< the same with the place
  void set_task_profile(TaskHook hook);      ///< of parallel regions; on the threads of the pool
  void set_instrument(InstrumentHook hook);  ///< null: off
  /// From any thread: the running call (or the next one) ends with Error "T0510", kind interrupted.
  void cancel();
  const Artifact& artifact() const;

 private:
  std::unique_ptr<Machine> machine_;
};

}  // namespace tenon
