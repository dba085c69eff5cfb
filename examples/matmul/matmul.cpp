// SPDX-License-Identifier: Apache-2.0
// The classic: a matrix product from three plain loops to the speed of the machine, one step at a time, as
// tensor expressions. The page docs/matmul.md is written from this program by scripts/matmul_page.
//
//   example_matmul --check DIR [--size N]     run every step against a plain product; replay DIR's traces
//   example_matmul --emit DIR [--size N]      write each step as script text and trace
//   example_matmul --time [--size N] [--peak LIBRARY] [--seconds S]      a line of JSON for each step
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>

#include "ir/structural.h"
#include "ir/text.h"
#include "pipeline/te_build.h"

namespace {

using namespace tenon;
using Index = Array<tir::VarRef>;

struct Step {
  te::Schedule schedule;
  Array<te::Tensor> args;
};

// [start]
struct Product {
  te::Tensor a, b, c;
  tir::IterVar k;
};
Product product(int64_t n) {
  Product p;
  p.a = te::placeholder({n, n}, f32, "A");
  p.b = te::placeholder({n, n}, f32, "B");
  p.k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), "k");
  p.c = te::compute(
      {n, n}, [&](const Index& i) { return te::sum(p.a({i[0], p.k->var}) * p.b({p.k->var, i[1]}), {p.k}); },
      "C");
  return p;
}
// [end]

// [step] naive: Three loops, as the formula says
Step naive(int64_t n) {
  Product p = product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [step] blocking: Tiles that stay in the cache
Step blocking(int64_t n) {
  Product p = product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Stage c = s[p.c];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 32, 32);
  auto [ko, ki] = c.split(p.k, 4);
  c.reorder({mo, no, ko, ki, mi, ni});
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [step] vectorize: The innermost loop becomes vectors
Step vectorize(int64_t n) {
  Product p = product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Stage c = s[p.c];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 32, 32);
  auto [ko, ki] = c.split(p.k, 4);
  c.reorder({mo, no, ko, ki, mi, ni});
  c.vectorize(ni);
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [step] permutation: Rows outside, so that A is read along its rows
Step permutation(int64_t n) {
  Product p = product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Stage c = s[p.c];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 32, 32);
  auto [ko, ki] = c.split(p.k, 4);
  c.reorder({mo, no, ko, mi, ki, ni});
  c.vectorize(ni);
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [start packed]
struct Packed {
  te::Tensor a, b, panels, c;
  tir::IterVar k;
};
/// Panels of 32 columns lie one after the other, each contiguous along k.
Packed packed_product(int64_t n) {
  Packed p;
  p.a = te::placeholder({n, n}, f32, "A");
  p.b = te::placeholder({n, n}, f32, "B");
  p.panels =
      te::compute({n / 32, n, 32}, [&](const Index& i) { return p.b({i[1], i[0] * 32 + i[2]}); }, "panels");
  p.k = te::reduce_axis(tir::range(PrimExpr(0), PrimExpr(n)), "k");
  p.c = te::compute(
      {n, n},
      [&](const Index& i) {
        PrimExpr panel = tir::floordiv(i[1], 32), column = tir::floormod(i[1], 32);
        return te::sum(p.a({i[0], p.k->var}) * p.panels({panel, p.k->var, column}), {p.k});
      },
      "C");
  return p;
}
// [end]

// [step] packing: B is packed into panels, read in order
Step packing(int64_t n) {
  Packed p = packed_product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Stage c = s[p.c], panels = s[p.panels];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 32, 32);
  auto [ko, ki] = c.split(p.k, 4);
  c.reorder({mo, no, ko, mi, ki, ni});
  c.vectorize(ni);
  panels.vectorize(panels.axis()[2]);
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [step] write_cache: A tile of results stays in registers over all of k
Step write_cache(int64_t n) {
  Packed p = packed_product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Tensor cc = s.cache_write(p.c, "local");
  te::Stage c = s[p.c], tile = s[cc], panels = s[p.panels];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 8, 32);  // 8 rows of 2 vectors
  c.reorder({no, mo, mi, ni});  // a panel serves all rows before the next one is read
  tile.compute_at(c, mo);
  auto [nv, lane] = tile.split(tile.axis()[1], 16);
  tile.reorder({p.k, tile.axis()[0], nv, lane});
  tile.unroll(tile.axis()[0]).unroll(nv).vectorize(lane);
  auto [cv, clane] = c.split(ni, 16);
  c.unroll(mi).unroll(cv).vectorize(clane);
  panels.compute_at(c, no).vectorize(panels.axis()[2]);  // each is packed where it is used
  return {s, {p.a, p.b, p.c}};
}
// [end]

// [step] parallel: Panels are shared out over the cores
Step parallel(int64_t n) {
  Packed p = packed_product(n);
  te::Schedule s = te::create_schedule(p.c->op);
  te::Tensor cc = s.cache_write(p.c, "local");
  te::Stage c = s[p.c], tile = s[cc], panels = s[p.panels];
  auto [mo, no, mi, ni] = c.tile(c.axis()[0], c.axis()[1], 8, 32);
  c.reorder({no, mo, mi, ni});
  tile.compute_at(c, mo);
  auto [nv, lane] = tile.split(tile.axis()[1], 16);
  tile.reorder({p.k, tile.axis()[0], nv, lane});
  tile.unroll(tile.axis()[0]).unroll(nv).vectorize(lane);
  auto [cv, clane] = c.split(ni, 16);
  c.unroll(mi).unroll(cv).vectorize(clane);
  panels.compute_at(c, no).vectorize(panels.axis()[2]);
  c.parallel(no);
  return {s, {p.a, p.b, p.c}};
}
// [end]

const std::vector<std::pair<std::string, Step (*)(int64_t)>> kSteps{
    {"naive", naive},         {"blocking", blocking},
    {"vectorize", vectorize}, {"permutation", permutation},
    {"packing", packing},     {"write_cache", write_cache},
    {"parallel", parallel}};

using Clock = std::chrono::steady_clock;
/// Of this thread: what other programs take of the core does not count.
double cpu_seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

NDArray filled(int64_t n, uint32_t seed) {
  NDArray a = NDArray::empty({n, n}, f32);
  auto* data = static_cast<float*>(a.data());
  for (int64_t i = 0; i < n * n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = float(seed >> 8) / float(1 << 24) - 0.5f;
  }
  return a;
}

IRModule module_of(const tir::PrimFunc& f) {
  IRModule m = IRModule::create();
  m.set("matmul", f);
  return m;
}
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}
/// Steps 1 to 4 share one program, steps 5 to 7 another.
std::string program_name(size_t step) { return step < 4 ? "product.tir" : "packed.tir"; }

int emit(const std::string& folder, int64_t n) {
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < kSteps.size(); ++i) {
    const Step step = kSteps[i].second(n);
    std::ofstream(folder + "/" + program_name(i)) << print(module_of(te::create_prim_func(step.args)));
    std::ofstream(folder + "/" + std::to_string(i + 1) + "_" + kSteps[i].first + ".json")
        << step.schedule.apply(step.args).trace().to_json() << "\n";
  }
  return 0;
}

int check(const std::string& folder, int64_t n) {
  int wrong = 0;
  NDArray a = filled(n, 1), b = filled(n, 2);
  const auto *x = static_cast<const float*>(a.data()), *y = static_cast<const float*>(b.data());
  std::vector<double> expected(size_t(n * n), 0);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) expected[size_t(i * n + j)] += double(x[i * n + k]) * y[k * n + j];
  for (size_t i = 0; i < kSteps.size(); ++i) {
    const Step step = kSteps[i].second(n);
    NDArray c = te::build(step.schedule, step.args).run({a, b})[0];
    double worst = 0;
    for (int64_t e = 0; e < n * n; ++e)
      worst = std::max(worst, std::abs(static_cast<const float*>(c.data())[e] - expected[size_t(e)]));
    // The other face: script text and a recorded trace, of 1024 x 1024, make what the tensor expressions
    // make.
    const Step full = kSteps[i].second(1024);
    const IRModule text = parse_module(text_of(folder + "/" + program_name(i)));
    const Trace trace =
        Trace::from_json(text_of(folder + "/" + std::to_string(i + 1) + "_" + kSteps[i].first + ".json"));
    const tir::PrimFunc replayed =
        tenon::Schedule::replay(text.find("matmul").cast<tir::PrimFuncNode>(), trace).function();
    const bool same = structural_equal(replayed, full.schedule.apply(full.args).function());
    const bool good = worst <= 1e-5 * std::sqrt(double(n)) && same;
    std::cout << kSteps[i].first << ": largest error " << worst << ", script text and trace "
              << (same ? "make the same program" : "make ANOTHER program") << (good ? "" : "  WRONG") << "\n";
    wrong += !good;
  }
  return wrong ? 1 : 0;
}

int time_steps(int64_t n, const std::string& peak_library, double seconds, const std::string& only) {
  double (*peak)(int, int64_t) = nullptr;
  if (!peak_library.empty()) {
    void* library = dlopen(peak_library.c_str(), RTLD_NOW);
    if (!library) throw Error(ErrorKind::io, "T3001", dlerror());
    peak = reinterpret_cast<double (*)(int, int64_t)>(dlsym(library, "tenon_bench_fma_gflops"));
  }
  NDArray a = filled(n, 1), b = filled(n, 2);
  double best_peak = 0;
  for (const auto& [name, make_step] : kSteps) {
    if (!only.empty() && only != name) continue;
    const Step step = make_step(n);
    for (int threads : {1, 0}) {
      if (threads == 0 && name != "parallel") continue;
      SessionOptions session;
      session.threads = threads;
      Runner runner = te::build(step.schedule, step.args, {}, session);
      runner.run({a, b});
      double best = 1e30;
      const auto begin = Clock::now();
      // The fastest of many short runs, the peak of the machine measured between them.
      for (int run = 0; run < 3 || seconds_since(begin) < seconds; ++run) {
        if (peak) best_peak = std::max(best_peak, peak(3, 200000));
        const auto from = Clock::now();
        const double cpu = cpu_seconds();
        runner.run({a, b});
        best = std::min(best, threads == 1 ? cpu_seconds() - cpu : seconds_since(from));
      }
      std::cout << "{\"step\":\"" << name << "\",\"threads\":" << threads << ",\"ms\":" << best * 1e3
                << ",\"gflops\":" << 2e-9 * double(n) * double(n) * double(n) / best
                << ",\"peak\":" << best_peak << "}" << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::string mode, folder, peak, only;
  int64_t size = 0;
  double seconds = 3;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (flag == "--check" || flag == "--emit" || flag == "--text") {
      mode = flag, folder = value, ++i;
    } else if (flag == "--time") {
      mode = flag;
    } else if (flag == "--size") {
      size = std::atoll(value), ++i;
    } else if (flag == "--peak") {
      peak = value, ++i;
    } else if (flag == "--only") {
      only = value, ++i;
    } else if (flag == "--seconds") {
      seconds = std::atof(value), ++i;
    } else {
      mode.clear();
      break;
    }
  }
  if (mode.empty() || size % 32 != 0) {
    std::cerr << "usage: example_matmul --check DIR | --emit DIR | --text STEP | --time [--size N (a "
                 "multiple of 32)]\n"
                 "                      [--peak LIBRARY] [--seconds S] [--only STEP]\n";
    return 2;
  }
  try {
    if (mode == "--check") return check(folder, size ? size : 96);
    if (mode == "--emit") return emit(folder, size ? size : 1024);
    if (mode == "--time") return time_steps(size ? size : 1024, peak, seconds, only);
    for (const auto& [name, make_step] : kSteps)
      if (name == folder) {
        const Step step = make_step(size ? size : 1024);
        tenon::Schedule s = step.schedule.apply(step.args);
        std::cout << s.trace().to_script() << "\n" << print(module_of(s.function()));
      }
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << "\n";
    return 1;
  }
}
