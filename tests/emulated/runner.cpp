// SPDX-License-Identifier: Apache-2.0
// Runs on another processor, or under its emulator, what tests compile for it: kernels of a shared object,
// and artifacts through the runtime that was built for it. Requests come on standard input, answers go to
// standard output (wire.h).
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "runtime/artifact.h"
#include "runtime/kernel.h"
#include "runtime/vm.h"
#include "wire.h"

namespace tenon::test {
namespace {

/// What kernels see of the tests' context: parallel loops in chunks in order, workspaces counted.
struct Context {
  TenonKernelContext context{};
  int64_t chunk = 1, fail_above = 0, live = 0, allocated = 0, parallel_calls = 0, last_cost = 0;
  Context() {
    context.runtime = this;
    context.parallel_for = [](const TenonKernelContext* c, TenonParallelBody body, void* closure,
                              int64_t extent, int64_t cost) -> int32_t {
      auto* self = static_cast<Context*>(c->runtime);
      ++self->parallel_calls;
      self->last_cost = cost;
      for (int64_t at = 0; at < extent; at += self->chunk)
        if (const int32_t code = body(closure, at, std::min(extent, at + self->chunk), c)) return code;
      return 0;
    };
    context.workspace = [](const TenonKernelContext* c, int64_t bytes) -> void* {
      auto* self = static_cast<Context*>(c->runtime);
      if (bytes > self->fail_above) return nullptr;
      ++self->live;
      ++self->allocated;
      return std::aligned_alloc(64, size_t(bytes + 127) / 64 * 64);
    };
    context.workspace_release = [](const TenonKernelContext* c, void* memory) {
      --static_cast<Context*>(c->runtime)->live;
      std::free(memory);
    };
  }
};

Message run_kernel(Incoming& in) {
  const std::string path = in.bytes(), symbol = in.bytes();
  Context context;
  context.chunk = std::max<int64_t>(1, in.number());
  context.fail_above = in.number();
  std::vector<NDArray> buffers(size_t(in.number()));
  std::vector<void*> pointers;
  for (NDArray& b : buffers) {
    const std::string bytes = in.bytes();
    b = NDArray::from_bytes({int64_t(bytes.size())}, u8, bytes.data(), bytes.size());
    pointers.push_back(b.data());
  }
  std::vector<int64_t> scalars(size_t(in.number()));
  for (int64_t& s : scalars) s = in.number();
  scalars.push_back(0);
  Message out;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto kernel = library ? reinterpret_cast<TenonKernel>(dlsym(library, symbol.c_str())) : nullptr;
  const char* wrong = kernel ? nullptr : dlerror();
  out.put(std::string(kernel ? "" : wrong ? wrong : "no such kernel"));
  if (kernel) {
    out.put(int64_t(kernel(pointers.data(), scalars.data(), &context.context)));
    out.put(context.live).put(context.allocated).put(context.parallel_calls).put(context.last_cost);
    for (const NDArray& b : buffers) out.put(b.data(), b.byte_size());
  }
  if (library) dlclose(library);
  return out;
}

Message run_model(Incoming& in) {
  const std::string path = in.bytes();
  std::vector<NDArray> inputs(size_t(in.number()));
  for (NDArray& a : inputs) {
    const DataType type = dtype_of_word(in.number());
    std::vector<int64_t> shape(size_t(in.number()));
    for (int64_t& d : shape) d = in.number();
    const std::string bytes = in.bytes();
    a = NDArray::from_bytes(shape, type, bytes.data(), bytes.size());
  }
  Message out;
  std::vector<NDArray> outputs;
  try {
    outputs = Session(Artifact::load(path)).invoke(inputs);
  } catch (const std::exception& e) {
    return out.put(std::string(e.what()));
  }
  out.put(std::string()).put(int64_t(outputs.size()));
  for (const NDArray& a : outputs) {
    out.put(dtype_word(a.dtype())).put(int64_t(a.ndim()));
    for (const int64_t d : a.shape()) out.put(d);
    out.put(a.data(), a.byte_size());
  }
  return out;
}

}  // namespace
}  // namespace tenon::test

int main() {
  using namespace tenon::test;
  Incoming in(STDIN_FILENO);
  for (;;) {
    const int64_t request = in.number();
    if (!in.good()) return 0;
    const Message answer = request == kRunKernel ? run_kernel(in) : run_model(in);
    if (!in.good() || !answer.send(STDOUT_FILENO)) return 1;
  }
}
