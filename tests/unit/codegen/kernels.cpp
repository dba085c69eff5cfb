// SPDX-License-Identifier: Apache-2.0
#include "kernels.h"

#include "../../emulated/emulator.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>

#include "base/temporary_folder.h"
#include "ir/pass.h"
#include "ir/tir.h"

namespace tenon::test {

using namespace tir;

Program program(const std::string& name, const std::vector<Buffer>& buffers,
                const std::vector<VarRef>& scalars, const Stmt& body, bool noalias) {
  Program p;
  const VarRef b = var("buffers", DataType::handle()), s = var("scalars", DataType::handle()),
               c = var("context", DataType::handle());
  Stmt lowered = body;
  for (size_t k = scalars.size(); k-- > 0;) {
    PrimExpr value = call(scalars[k]->dtype.is_float() ? i64 : scalars[k]->dtype, "tir.kernel_scalar",
                          {s, PrimExpr(int64_t(k))});
    if (scalars[k]->dtype.is_float()) value = cast(scalars[k]->dtype, call(f64, "tir.reinterpret", {value}));
    lowered = make<LetStmt>(scalars[k], value, lowered);
  }
  for (size_t k = buffers.size(); k-- > 0;) {
    lowered = make<DeclBuffer>(buffers[k], lowered);
    lowered = make<LetStmt>(
        buffers[k]->data, call(DataType::handle(), "tir.kernel_buffer", {b, PrimExpr(int64_t(k))}), lowered);
  }
  p.lowered = make<PrimFuncNode>();
  p.lowered.edit()->params = {b, s, c};
  p.lowered.edit()->body = lowered;
  p.lowered.edit()->attrs =
      AttrMap{{"global_symbol", Any(name)}, {"tir.noalias", Any(noalias)}, {"tenon.kernel", Any(true)}};
  p.plain = make<PrimFuncNode>();
  for (const Buffer& buffer : buffers) {
    const VarRef handle = var(buffer->name, DataType::handle());
    p.plain.edit()->params.push_back(handle);
    p.plain.edit()->buffer_map.set(handle, buffer);
  }
  for (const VarRef& v : scalars) p.plain.edit()->params.push_back(v);
  p.plain.edit()->body = body;
  return p;
}
IRModule module_of(const std::vector<PrimFunc>& functions) {
  IRModule m = IRModule::create();
  for (const PrimFunc& f : functions) m.set(f->attrs.at("global_symbol").as<std::string>(), f);
  return m;
}
IRModule as_code_takes_it(const std::vector<PrimFunc>& functions, const Target& target) {
  PassContext context;
  context.target = target;
  IRModule m = module_of(functions);
  for (const char* pass :
       {"f16_compute_legalize", "bf16_compute_legalize", "fp8_compute_legalize", "lower_intrin",
        "f16_storage_legalize", "bf16_storage_legalize", "fp8_storage_legalize", "int4_legalize"})
    m = run_pass(pass, m, context);
  return m;
}
Buffer flat(const std::string& name, int64_t size, DataType dtype) {
  return buffer(name, {PrimExpr(size)}, dtype);
}

TestContext::TestContext() {
  context.runtime = this;
  context.parallel_for = [](const TenonKernelContext* c, TenonParallelBody body, void* closure,
                            int64_t extent, int64_t cost) -> int32_t {
    auto* self = static_cast<TestContext*>(c->runtime);
    ++self->parallel_calls;
    self->last_cost = cost;
    for (int64_t at = 0; at < extent; at += self->chunk)
      if (int32_t code = body(closure, at, std::min(extent, at + self->chunk), c)) return code;
    return 0;
  };
  context.workspace = [](const TenonKernelContext* c, int64_t bytes) -> void* {
    auto* self = static_cast<TestContext*>(c->runtime);
    if (bytes > self->fail_above) return nullptr;
    ++self->live;
    ++self->allocated;
    return std::aligned_alloc(64, size_t(bytes + 127) / 64 * 64);
  };
  context.workspace_release = [](const TenonKernelContext* c, void* memory) {
    --static_cast<TestContext*>(c->runtime)->live;
    std::free(memory);
  };
}

static int32_t call_kernel(void* f, const std::vector<NDArray>& arrays, const std::vector<int64_t>& scalars,
                           TestContext* context) {
  TestContext own;
  if (!context) context = &own;
  std::vector<void*> pointers;
  for (const NDArray& a : arrays) pointers.push_back(a.data());
  const int32_t code = reinterpret_cast<TenonKernel>(f)(pointers.data(), scalars.data(), &context->context);
  EXPECT_EQ(context->live, 0) << "a workspace is still held";
  return code;
}
static std::string symbol_of(const PrimFunc& f) { return f->attrs.at("global_symbol").as<std::string>(); }

/// The same on the processor that an emulator stands for: with all that it has where the test means this
/// machine, without its features where it means another one.
static int32_t run_emulated(Emulator& emulator, const PrimFunc& f, const std::vector<NDArray>& arrays,
                            const std::vector<int64_t>& scalars, int opt_level, bool base,
                            TestContext* context) {
  TestContext own;
  if (!context) context = &own;
  const Target& target = base ? emulator.base : emulator.target;
  const std::string code =
      codegen::link_elf(codegen::llvm_object(as_code_takes_it({f}, target), target, opt_level), target,
                        codegen::LinkedAs::shared);
  const Emulator::KernelResult done =
      emulator.run_kernel(code, symbol_of(f), arrays, scalars, context->chunk, context->fail_above);
  if (!done.error.empty()) {
    ADD_FAILURE() << done.error;
    return -100;
  }
  EXPECT_EQ(done.live, 0) << "a workspace is still held";
  context->allocated += done.allocated;
  context->parallel_calls += done.parallel_calls;
  if (done.parallel_calls) context->last_cost = done.last_cost;
  return done.code;
}

int32_t run_llvm(const PrimFunc& f, const std::vector<NDArray>& arrays, const std::vector<int64_t>& scalars,
                 int opt_level, const Target& target, TestContext* context) {
  if (Emulator* emulator = Emulator::get())
    return run_emulated(*emulator, f, arrays, scalars, opt_level, !target.same_as(host_target()), context);
  const auto jit =
      codegen::load_elf(codegen::llvm_object(as_code_takes_it({f}, target), target, opt_level), target);
  void* at = jit.find(symbol_of(f));
  EXPECT_NE(at, nullptr);
  return at ? call_kernel(at, arrays, scalars, context) : -100;
}

CLibrary::CLibrary(const std::vector<PrimFunc>& functions, const std::string& compiler) {
  const TemporaryFolder temporary("a test");
  const std::string dir = temporary.path.string();
  const std::string source = c_text(as_code_takes_it(functions, parse_target("c")));
  std::ofstream(dir + "/k.c") << source;
  const std::string command = fmt::format(
      "{0} -Wall -Wextra -Werror -shared -fPIC -o {1}/k.so {1}/k.c -lm 2> {1}/log", compiler, dir);
  if (std::system(command.c_str()) != 0) {
    std::ifstream log(dir + "/log");
    ADD_FAILURE() << compiler << ": " << std::string(std::istreambuf_iterator<char>(log), {}) << "\n"
                  << source;
  } else if (handle_ = dlopen((dir + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL); !handle_) {
    ADD_FAILURE() << dlerror();
  }
}
CLibrary::~CLibrary() {
  if (handle_) dlclose(handle_);
}
TenonKernel CLibrary::find(const std::string& symbol) const {
  return handle_ ? reinterpret_cast<TenonKernel>(dlsym(handle_, symbol.c_str())) : nullptr;
}

int32_t run_c(const PrimFunc& f, const std::string& compiler, const std::vector<NDArray>& arrays,
              const std::vector<int64_t>& scalars, TestContext* context) {
  const CLibrary library({f}, compiler + " -std=c11 -O0 -ffp-contract=off");
  const TenonKernel at = library.find(symbol_of(f));
  EXPECT_NE(at, nullptr);
  return at ? call_kernel(reinterpret_cast<void*>(at), arrays, scalars, context) : -100;
}

std::vector<NDArray> copies(const std::vector<NDArray>& arrays) {
  std::vector<NDArray> out;
  for (const NDArray& a : arrays) out.push_back(a.copy());
  return out;
}

int64_t ulp_distance(double a, double b, DataType t) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INT64_MAX;
  if (a == b) return 0;
  if (t.bits == 64) {
    auto order = [](double v) {
      const int64_t i = std::bit_cast<int64_t>(v);
      return i < 0 ? INT64_MIN - i : i;
    };
    const int64_t x = order(a), y = order(b);
    return x > y ? x - y : y - x;
  }
  if (t == f32) {
    auto order = [](float v) {
      const int32_t i = std::bit_cast<int32_t>(v);
      return i < 0 ? int64_t(INT32_MIN) - i : int64_t(i);
    };
    return std::abs(order(float(a)) - order(float(b)));
  }
  const int digits = t.code == TypeCode::BFloat ? 8 : t.bits == 16 ? 11 : 4;
  return int64_t(std::ceil(std::fabs(a - b) /
                           std::ldexp(1.0, std::ilogb(std::max(std::fabs(a), std::fabs(b))) - digits + 1)));
}

void expect_close(const NDArray& actual, const NDArray& wanted, int64_t ulps, const std::string& what) {
  ASSERT_EQ(actual.size(), wanted.size());
  int shown = 0;
  for (int64_t i = 0; i < actual.size() && shown < 5; ++i) {
    if (actual.dtype().is_float()) {
      const double a = actual.element(i), w = wanted.element(i);
      if (ulp_distance(a, w, actual.dtype()) > ulps) {
        ADD_FAILURE() << fmt::format("{} [{}]: {} instead of {} ({})", what, i, a, w,
                                     to_string(actual.dtype()));
        ++shown;
      }
    } else if (actual.element_int(i) != wanted.element_int(i)) {
      ADD_FAILURE() << fmt::format("{} [{}]: {} instead of {} ({})", what, i, actual.element_int(i),
                                   wanted.element_int(i), to_string(actual.dtype()));
      ++shown;
    }
  }
}

void expect_same(const Program& p, const std::vector<NDArray>& arrays, const std::vector<int64_t>& scalars,
                 int64_t ulps, bool c) {
  std::vector<NDArray> wanted = copies(arrays), args = wanted;
  size_t k = 0;
  for (const VarRef& v : p.plain->params)
    if (!p.plain->buffer_map.contains(v)) {
      const int64_t word = scalars.at(k++);
      NDArray a = NDArray::empty({}, v->dtype);
      if (v->dtype.is_float())
        a.set_element(0, std::bit_cast<double>(word));
      else
        a.set_element_int(0, word);
      args.push_back(a);
    }
  interpret_prim_func(p.plain, args);
  auto check = [&](const std::string& what, const std::vector<NDArray>& got, int32_t code) {
    EXPECT_EQ(code, 0) << what;
    for (size_t i = 0; i < got.size(); ++i)
      expect_close(got[i], wanted[i], ulps, what + " argument " + std::to_string(i));
  };
  for (int level : {0, 2}) {
    std::vector<NDArray> got = copies(arrays);
    const int32_t code = run_llvm(p.lowered, got, scalars, level);
    check(fmt::format("llvm -O{}", level), got, code);
  }
  std::vector<NDArray> base = copies(arrays);
  const int32_t base_code = run_llvm(p.lowered, base, scalars, 1, parse_target("llvm -mcpu=x86-64"));
  check("llvm x86-64", base, base_code);
  if (!c || Emulator::get()) return;
  static int turn = 0;  // the compilers take turns, to keep the tests short
  for (const char* compiler : {++turn % 2 ? "gcc" : "clang-22"}) {
    std::vector<NDArray> got = copies(arrays);
    const int32_t code = run_c(p.lowered, compiler, got, scalars);
    check(compiler, got, code);
  }
}

NDArray random_array(std::vector<int64_t> shape, DataType dtype, uint64_t seed) {
  std::mt19937_64 random(seed);
  NDArray a = NDArray::empty(std::move(shape), dtype);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (dtype.is_float())
      a.set_element(i, double(int64_t(random() % 2001) - 1000) / 128.0);
    else if (dtype.is_bool())
      a.set_element_int(i, int64_t(random() & 1));
    else
      a.set_element_int(i, int64_t(random()) >> (random() % 60));
  }
  return a;
}
NDArray array_of(const std::vector<double>& values, DataType dtype) {
  NDArray a = NDArray::empty({int64_t(values.size())}, dtype);
  for (size_t i = 0; i < values.size(); ++i) a.set_element(int64_t(i), values[i]);
  return a;
}

}  // namespace tenon::test
