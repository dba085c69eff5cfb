// SPDX-License-Identifier: Apache-2.0
// Scheduled programs through the lowering pipeline and both code generators: a sample of the random
// schedules, and what single primitives ask of the lowering. Scratch memory starts as NaN.
#include <dlfcn.h>

#include <cstring>
#include <fstream>

#include "../codegen/c_text.h"
#include "base/temporary_folder.h"
#include "codegen/elf.h"
#include "codegen/llvm/llvm.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "pipeline/pass_lists.h"
#include "runtime/kernel.h"
#include "steps.h"

namespace tenon::testing {
namespace {

struct Compiled {
  std::string label;
  tir::PrimFunc function;
  Program program;
};

IRModule lowered(const std::vector<Compiled>& all) {
  IRModule m = IRModule::create();
  for (size_t i = 0; i < all.size(); ++i) {
    // Threads of a device run one after the other here.
    tir::PrimFunc f = rewrite(all[i].function, [](const tir::For& l) -> tir::Stmt {
      if (l.kind != tir::ForKind::thread_binding) return {};
      return tir::for_(l.loop_var, l.min, l.extent, l.body);
    });
    const std::string name = "kernel_" + std::to_string(i);
    f.edit()->attrs.set("global_symbol", Any(name));
    m.set(name, f);
  }
  PassContext context;
  context.target = host_target();
  context.opt_level = 2;
  return run_passes(std::move(m), tensor_passes(), context);
}

std::vector<NDArray> call(void* code, const Compiled& c) {
  TenonKernelContext context{};
  context.parallel_for = [](const TenonKernelContext* self, TenonParallelBody body, void* closure,
                            int64_t extent, int64_t) -> int32_t {
    for (int64_t at = extent; at-- > 0;)  // backwards: what is parallel may run in any order
      if (int32_t code = body(closure, at, at + 1, self)) return code;
    return 0;
  };
  context.workspace = [](const TenonKernelContext*, int64_t bytes) -> void* {
    void* p = std::aligned_alloc(64, size_t(bytes + 127) / 64 * 64);
    std::memset(p, 0xff, size_t(bytes + 127) / 64 * 64);
    return p;
  };
  context.workspace_release = [](const TenonKernelContext*, void* memory) { std::free(memory); };
  std::vector<NDArray> args = arguments(c.function, c.program.sizes);
  std::vector<void*> buffers;
  for (size_t i = 0; i < args.size(); ++i)
    if (c.function->buffer_map.contains(c.function->params[i])) buffers.push_back(args[i].data());
  std::vector<int64_t> scalars;
  for (const tir::VarRef& v : kernel_scalars(c.function)) scalars.push_back(c.program.sizes.at(v->name));
  EXPECT_EQ(reinterpret_cast<TenonKernel>(code)(buffers.data(), scalars.data(), &context), 0) << c.label;
  return args;
}

void check_llvm(const std::vector<Compiled>& all) {
  const IRModule m = lowered(all);
  codegen::LoadedCode jit = codegen::load_elf(codegen::llvm_object(m, host_target(), 1, 1), host_target());
  for (size_t i = 0; i < all.size(); ++i) {
    void* code = jit.find("kernel_" + std::to_string(i));
    ASSERT_TRUE(code);
    EXPECT_TRUE(same(run(all[i].program.function, all[i].program.sizes), call(code, all[i]))) << all[i].label;
  }
}
void check_c(const std::vector<Compiled>& all) {
  const TemporaryFolder temporary("a test");
  const std::string dir = temporary.path.string();
  std::ofstream(dir + "/k.c") << test::c_text(lowered(all));
  ASSERT_EQ(std::system(("cc -std=c11 -O0 -shared -fPIC -o " + dir + "/k.so " + dir + "/k.c -lm").c_str()),
            0);
  void* library = dlopen((dir + "/k.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_TRUE(library) << dlerror();
  for (size_t i = 0; i < all.size(); ++i) {
    void* code = dlsym(library, ("kernel_" + std::to_string(i)).c_str());
    ASSERT_TRUE(code);
    EXPECT_TRUE(same(run(all[i].program.function, all[i].program.sizes), call(code, all[i]))) << all[i].label;
  }
  dlclose(library);
}

/// Memory of processors has one axis.
bool has_axis_separators(const tir::PrimFunc& f) {
  bool found = false;
  pre_order(f->body, [&](const ObjectRef& n) {
    const auto* b = n.as<tir::BufferNode>();
    found = found || (b && !b->axis_separators.empty());
    return !found;
  });
  return found;
}

std::vector<Compiled> sample(int first, int count) {
  register_test_intrins();
  const std::vector<Program> all = all_programs();
  Counts counts;
  std::vector<Compiled> out;
  for (int seed = first; int(out.size()) < count; ++seed) {
    const Program& p = all[size_t(seed) % all.size()];
    Schedule s = random_schedule(p, uint64_t(seed), 8, 80, counts);
    if (has_axis_separators(s.function())) continue;
    out.push_back({p.name + " seed " + std::to_string(seed) + "\n" + s.trace().to_script(), s.function(), p});
  }
  return out;
}

int sample_size(int otherwise) {
  const char* more = std::getenv("TENON_COMPILED_SCHEDULES");
  return more ? std::atoi(more) : otherwise;
}

class CompiledSchedules : public ::testing::TestWithParam<int> {};
TEST_P(CompiledSchedules, SameNumbers) {
  const int n = sample_size(48);
  check_llvm(sample(1000 * GetParam() * (n > 500 ? n : 1), n));
}
INSTANTIATE_TEST_SUITE_P(Seeds, CompiledSchedules, ::testing::Range(0, 3));
TEST(CompiledSchedulesInC, SameNumbers) { check_c(sample(7000, 24)); }

TEST(Lowering, StorageAlignPadsStrides) {
  Program p = matmul(6, 8, 5);
  Schedule s(p.function);
  s.storage_align(s.get_block("C"), 0, 0, 16, 4);
  std::vector<Compiled> one{{"aligned", s.function(), p}};
  bool padded = false;  // 6 rows of stride 20
  post_order(lowered(one).find("kernel_0"), [&](const ObjectRef& n) {
    if (const auto* a = n.as<tir::Allocate>())
      padded = padded || tir::is_const_int(a->buffer->shape[0], 5 * 20 + 8);
  });
  EXPECT_TRUE(padded) << print(lowered(one));
  check_llvm(one);
  check_c(one);
}

TEST(Lowering, TensorizedTilesMatchTheirRegions) {
  register_test_intrins();
  Program p = matmul(8, 8, 4, false);
  Schedule s(p.function);
  BlockRV c = s.get_block("C");
  BlockRV out = s.cache_write(c, 0, "local");
  s.storage_align(c, 0, 0, 16, 4);
  std::vector<LoopRV> l = s.get_loops(c), order, inner;
  for (LoopRV x : l) {
    std::vector<LoopRV> parts = s.split(x, {-1, 2});
    order.push_back(parts[0]), inner.push_back(parts[1]);
  }
  order.insert(order.end(), inner.begin(), inner.end());
  s.reorder(order);
  const auto intrin = find_tensor_intrin("test.update2x2");
  register_tensor_intrin("test.indexed", intrin->description, intrin->description);
  Schedule indexed = s;
  indexed.tensorize(inner[0], "test.indexed");
  BlockRV o = s.tensorize(inner[0], "test.update2x2");
  s.decompose_reduction(o, order[2]);
  s.parallel(order[0]);
  s.vectorize(s.get_loops(out)[1]);
  std::vector<Compiled> both{{s.trace().to_script(), s.function(), p},
                             {indexed.trace().to_script(), indexed.function(), p}};
  check_llvm(both);
  check_c(both);
}

}  // namespace
}  // namespace tenon::testing
