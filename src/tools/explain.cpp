// SPDX-License-Identifier: Apache-2.0
// Programs lowered, compiled with marks, and taken apart: machine loops are what jumps back span, and belong
// to the loop that most of their instructions come from.
#include "tools/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>

#include "analysis/analyzer.h"
#include "analysis/kernel_work.h"
#include "codegen/codegen.h"
#include "ir/attr_keys.h"
#include "ir/symbols.h"
#include "ir/text.h"
#include "ir/walk.h"
#include "pipeline/compile.h"
#include "runtime/artifact.h"
#include "runtime/kernel.h"

namespace tenon {

using codegen::MachineFunction;
using codegen::MachineLine;
using namespace tir;

namespace {

// ---------------------------------------------------------------- instructions
bool begins_with(std::string_view s, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](std::string_view p) { return s.starts_with(p); });
}

struct AsmInstruction {
  std::string_view name, operands, note;
};
AsmInstruction instruction_of(std::string_view line) {
  AsmInstruction i;
  for (std::string_view sign : {" # ", " // "})
    if (const size_t at = line.find(sign); at != line.npos) {
      i.note = line.substr(at + sign.size());
      line = line.substr(0, at);
    }
  const size_t blank = line.find(' ');
  i.name = line.substr(0, blank);
  if (blank != line.npos) i.operands = line.substr(blank + 1);
  return i;
}
/// Where a jump goes, or "".
std::string_view jump_of(const AsmInstruction& i) {
  const size_t at = i.operands.find(".LBB");
  const bool jump = begins_with(i.name, {"j", "b.", "cb", "tb"}) || i.name == "b";
  return jump && at != i.operands.npos ? i.operands.substr(at) : std::string_view();
}

/// Destination last, memory in parentheses.
void count_x86(const AsmInstruction& i, InstructionCounts& c) {
  std::string_view op = i.name;
  const bool vex = op.starts_with("v");
  if (vex) op.remove_prefix(1);
  const size_t open = i.operands.rfind('(');
  const bool memory = open != i.operands.npos && !begins_with(i.name, {"lea", "nop", "prefetch"});
  int depth = 0;
  bool last = false;  // is the memory operand the last one?
  if (memory) {
    size_t start = 0;
    for (size_t k = 0; k < i.operands.size(); ++k) {
      if (i.operands[k] == '(') ++depth;
      if (i.operands[k] == ')') --depth;
      if (i.operands[k] == ',' && depth == 0) start = k + 1;
    }
    last = i.operands.find('(', start) != i.operands.npos;
  }
  const bool only_reads =
      begins_with(op, {"cmp", "test", "ucomis", "comis", "ptest", "kortest", "push", "bt"});
  if (memory && last && !only_reads)
    ++(i.note.find("Spill") != i.note.npos ? c.spill : c.store);
  else if (memory)
    ++(i.note.find("Reload") != i.note.npos ? c.reload : c.load);
  const int64_t bits = i.operands.find("%zmm") != i.operands.npos   ? 512
                       : i.operands.find("%ymm") != i.operands.npos ? 256
                       : i.operands.find("%xmm") != i.operands.npos ? 128
                                                                    : 0;
  if (bits == 0) return;
  const bool fma =
      begins_with(op, {"fmadd", "fmsub", "fnmadd", "fnmsub", "pdpbusd", "dpbf16", "pmaddwd", "pdpwssd"});
  const bool real = op.ends_with("ps") || op.ends_with("pd") || op.ends_with("ss") || op.ends_with("sd");
  const bool arithmetic =
      begins_with(op, {"add",  "sub",  "mul",  "div",  "sqrt", "min",  "max",     "rndscale", "round",
                       "cmp",  "padd", "psub", "pmul", "pmin", "pmax", "pand",    "por",      "pxor",
                       "psll", "psrl", "psra", "and",  "or",   "xor",  "ternlog", "pternlog"}) &&
      !begins_with(op, {"orb"});
  // A register against itself is a zero.
  const bool moves =
      begins_with(op, {"mov",    "broadcast", "pbroadcast", "perm",   "shuf",  "unpck",  "punpck",
                       "insert", "extract",   "pinsr",      "pextr",  "blend", "pblend", "cvt",
                       "pmov",   "gather",    "pack",       "palign", "align", "pshuf"});
  const int64_t width = op.ends_with("ss") || op.ends_with("sd") ? 0 : bits;
  const double lanes = width == 0 ? 1 : op.ends_with("pd") ? double(width) / 64 : double(width) / 32;
  if (fma) {
    ++c.fma;
    c.vector_bits = std::max(c.vector_bits, width);
    if (real) c.flop += 2 * lanes;
  } else if (arithmetic) {
    ++c.arithmetic;
    c.vector_bits = std::max(c.vector_bits, width);
    const bool flop = real && begins_with(op, {"add", "sub", "mul", "div", "sqrt", "min", "max"});
    if (flop) c.flop += lanes;
  } else if (moves && !memory) {
    ++c.move;
  }
}
/// Destination first, memory in brackets, the type behind a vector register (v0.4s).
void count_arm(const AsmInstruction& i, InstructionCounts& c) {
  const std::string_view op = i.name;
  const int64_t pair = op.starts_with("ldp") || op.starts_with("stp") ? 2 : 1;
  if (begins_with(op, {"ld"})) (i.note.find("Reload") != i.note.npos ? c.reload : c.load) += pair;
  if (begins_with(op, {"st"})) (i.note.find("Spill") != i.note.npos ? c.spill : c.store) += pair;
  if (begins_with(op, {"ld", "st"})) return;
  const bool vector = i.operands.find("v") == 0 && i.operands.find('.') != i.operands.npos;
  const bool scalar = !vector && !i.operands.empty() && (i.operands[0] == 's' || i.operands[0] == 'd') &&
                      i.operands.size() > 1 && std::isdigit(static_cast<unsigned char>(i.operands[1]));
  if (!vector && !scalar) return;
  const double lanes = scalar                                      ? 1
                       : i.operands.find(".2d") != i.operands.npos ? 2
                       : i.operands.find(".2s") != i.operands.npos ? 2
                                                                   : 4;
  if (begins_with(op,
                  {"fmla", "fmls", "fmadd", "fmsub", "fnmadd", "sdot", "udot", "usdot", "bfdot", "mla"})) {
    ++c.fma;
    if (op[0] == 'f') c.flop += 2 * lanes;
  } else if (begins_with(op, {"fadd", "fsub", "fmul", "fdiv", "fsqrt", "fmin", "fmax", "fneg", "fabs"})) {
    ++c.arithmetic;
    c.flop += lanes;
  } else if (begins_with(op, {"add", "sub", "mul", "and", "orr", "eor", "shl", "ushr", "sshr", "cm", "fcm",
                              "smin", "smax", "umin", "umax"})) {
    ++c.arithmetic;
  } else {
    ++c.move;
    return;
  }
  if (vector) c.vector_bits = 128;
}

// ---------------------------------------------------------------- machine loops
void find_loops(const MachineFunction& f, bool arm, std::vector<MachineLoop>& out) {
  std::unordered_map<std::string, size_t> labels;
  for (size_t k = 0; k < f.lines.size(); ++k)
    if (f.lines[k].label) labels[f.lines[k].text] = k;
  // From a label to the last jump back to it.
  std::map<size_t, size_t> spans;
  for (size_t k = 0; k < f.lines.size(); ++k) {
    if (f.lines[k].label) continue;
    const auto to = jump_of(instruction_of(f.lines[k].text));
    auto label = to.empty() ? labels.end() : labels.find(std::string(to));
    if (label != labels.end() && label->second <= k) spans[label->second] = std::max(spans[label->second], k);
  }
  // Those inside first: what they come from is not what is around them.
  std::vector<std::pair<size_t, size_t>> order(spans.begin(), spans.end());
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.second - a.first < b.second - b.first; });
  std::map<size_t, MachineLoop> found;
  for (const auto& [first, last] : order) {
    MachineLoop m;
    std::vector<std::pair<size_t, size_t>> inside;
    std::map<int32_t, int64_t> votes;
    for (const auto& [start, loop] : found)
      if (start > first && spans.at(start) <= last) inside.emplace_back(start, spans.at(start));
    m.innermost = inside.empty();
    for (size_t k = first; k <= last; ++k) {
      m.lines.push_back(f.lines[k].text);
      const bool elsewhere = std::any_of(inside.begin(), inside.end(),
                                         [&](const auto& s) { return k >= s.first && k <= s.second; });
      if (f.lines[k].label || elsewhere) continue;
      ++votes[f.lines[k].loop];
      ++m.counts.total;
      (arm ? count_arm : count_x86)(instruction_of(f.lines[k].text), m.counts);
    }
    for (const auto& [start, end] : inside) votes.erase(found.at(start).loop);
    int64_t most = 0;
    for (const auto& [loop, n] : votes)
      if (loop >= 0 && n > most) m.loop = loop, most = n;
    found.emplace(first, std::move(m));
  }
  for (auto& [first, loop] : found) out.push_back(std::move(loop));
}

// ---------------------------------------------------------------- loops of the program
std::vector<int32_t> lines_of_loops(const std::string& text) {
  std::vector<int32_t> out;
  int32_t number = 0;
  size_t at = 0;
  for (; at < text.size(); ++number) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line(text.data() + at, end - at);
    at = end + 1;
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    int64_t loops = line.starts_with("while ") ? 1 : 0;
    if (line.starts_with("for "))
      loops = 1 + std::count(line.begin(), line.begin() + int64_t(line.find(" in ")), ',');
    out.insert(out.end(), size_t(loops), number);
  }
  return out;
}

/// What a statement does at least, buffers of the kernel and its own alike.
std::optional<KernelWork> work_of(const Stmt& s) {
  PrimFunc f = make<PrimFuncNode>();
  std::unordered_map<const tir::Var*, bool> seen;
  pre_order(s, [&](const ObjectRef& n) {
    Buffer b;
    if (const auto* l = n.as<BufferLoad>()) b = l->buffer;
    if (const auto* l = n.as<BufferStore>()) b = l->buffer;
    if (b && !seen[b->data.get()]) {
      seen[b->data.get()] = true;
      const VarRef p = var(b->name, DataType::handle());
      f.edit()->params.push_back(p);
      f.edit()->buffer_map.set(p, b);
    }
    return !n.is<BufferNode>();
  });
  f.edit()->body = s;
  return kernel_work(f);
}

/// Loops that no other loop is around, each wrapped in a timer when there are some.
class Nests {
 public:
  std::vector<Stmt> found;
  std::vector<codegen::LoopTimer>* timers = nullptr;

  Stmt stmt(const Stmt& s) {
    if (!s) return s;
    if (s.is<For>() || s.is<tir::While>()) {
      found.push_back(s);
      if (!timers) return s;
      const auto address = int64_t(reinterpret_cast<intptr_t>(&timers->at(found.size() - 1)));
      return make<AttrStmt>(make<tir::StringImm>(std::string("timer")), std::string(codegen::kTimerKey),
                            PrimExpr::int_imm(address, i64), s);
    }
    return map_children(s,
                        [&](const ObjectRef& c) -> ObjectRef {
                          return c.is<StmtNode>() ? ObjectRef(stmt(c.cast<StmtNode>())) : c;
                        })
        .cast<StmtNode>();
  }
};

// ---------------------------------------------------------------- runs
int32_t in_order(const TenonKernelContext* context, TenonParallelBody body, void* closure, int64_t extent,
                 int64_t) {
  return body(closure, 0, extent, context);
}
void* scratch(const TenonKernelContext*, int64_t bytes) {
  return std::aligned_alloc(64, size_t((bytes + 127) / 64 * 64));
}
void give_back(const TenonKernelContext*, void* p) { std::free(p); }

/// Small numbers; integers of 16 bits and more, which may be places in another array, are 0.
NDArray random_values(const std::vector<int64_t>& shape, DataType t, std::mt19937_64& random) {
  NDArray a = NDArray::zeros(shape, t);
  for (int64_t i = 0; i < a.size(); ++i) {
    if (t.is_float())
      a.set_element(i, double(random() % 1024) / 1024);
    else if (t.bits <= 8)
      a.set_element_int(i, int64_t(random() % 7));
  }
  return a;
}

/// Why the program cannot be run, or "" and its arguments.
std::string arguments_of(const PrimFunc& f, const std::map<std::string, int64_t>& dims,
                         std::vector<NDArray>& arrays, std::vector<int64_t>& scalars) {
  if (f->attrs.contains(kKernelAttr))
    return "its parameters have no sizes any more: name passes before make_packed_api";
  VarMap values;
  std::string missing;
  for (const VarRef& v : kernel_scalars(f)) {
    auto it = dims.find(v->name);
    if (it == dims.end()) missing += (missing.empty() ? "'" : ", '") + v->name + "'";
    const int64_t n = it == dims.end() ? 1 : it->second;
    values[v.get()] = PrimExpr::int_imm(n, v->dtype.is_integer() ? v->dtype : i64);
    scalars.push_back(n);
  }
  if (!missing.empty())
    return fmt::format("not measured: the value of {} is not known (--dim NAME=N)", missing);
  std::mt19937_64 random(0);
  for (const VarRef& p : f->params) {
    const auto b = f->buffer_map.find(p);
    if (!b) {
      if (p->dtype.is_handle()) return "not measured: a parameter is a pointer";
      continue;
    }
    std::vector<int64_t> shape;
    for (const PrimExpr& d : (*b)->shape) {
      const auto n = as_int(simplify(substitute(d, values)));
      if (!n) return fmt::format("not measured: the shape of '{}' is not known", (*b)->name);
      shape.push_back(std::max<int64_t>(0, *n));
    }
    if (!(*b)->strides.empty() || (*b)->elem_offset)
      return fmt::format("not measured: '{}' is not dense", (*b)->name);
    arrays.push_back(random_values(shape, (*b)->dtype, random));
  }
  return {};
}

/// The fastest of several runs, of each nest.
std::string measure(const PrimFunc& f, const IRModule& lowered, const std::string& name, const Target& target,
                    const ExplainOptions& options, std::vector<LoopNest>& nests) {
  std::vector<NDArray> arrays;
  std::vector<int64_t> scalars;
  if (std::string why = arguments_of(f, options.dims, arrays, scalars); !why.empty()) return why;
  const TargetNeeds needs{target->triple, target->cpu, target->features.vec()};
  if (!missing_features(needs).empty()) return "not measured: this machine lacks what the target has";
  std::vector<codegen::LoopTimer> timers(nests.size());
  Nests timed;
  timed.timers = &timers;
  const IRModule m = lowered.map_prim([&](const std::string& n, const PrimFunc& g) -> ObjectRef {
    if (n != name) return {};
    PrimFunc out = g;
    out.edit()->body = timed.stmt(g->body);
    return out;
  });
  const codegen::CodeGenerator& generator = codegen::code_generator(target);
  const codegen::LoadedCode code =
      codegen::linker_for(target).load(generator.object(m, target, options.opt_level, 1), target);
  const PrimFunc kernel = m.find(name).cast<PrimFuncNode>();
  auto* run = reinterpret_cast<TenonKernel>(code.find(kernel->attrs.at("global_symbol").as<std::string>()));
  if (!run) return "not measured: its symbol is not there";
  std::vector<void*> buffers;
  for (const NDArray& a : arrays) buffers.push_back(a.data());
  const TenonKernelContext context{in_order, scratch, give_back, nullptr};
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int64_t k = 0;
       k < 1000 && (k < 5 || Clock::now() - start < std::chrono::duration<double>(options.seconds)); ++k) {
    for (codegen::LoopTimer& t : timers) t = {};
    if (const int32_t code = run(buffers.data(), scalars.data(), &context))
      return fmt::format("not measured: the kernel returned {}", code);
    if (k == 0) continue;  // caches and pages were cold
    for (size_t i = 0; i < nests.size(); ++i) {
      const double ms = double(timers[i].total) * 1e-6;
      if (nests[i].ms == 0 || ms < nests[i].ms) nests[i].ms = ms;
    }
  }
  return {};
}

KernelExplanation explain_one(const IRModule& module, const std::string& name, const PrimFunc& f,
                              const Target& target, const ExplainOptions& options) {
  KernelExplanation out;
  out.name = name;
  // What it calls is needed too; what else there is only takes time.
  IRModule alone = IRModule::create();
  for (const auto& [n, g] : module.functions())
    if (const auto* p = g.as<PrimFuncNode>(); n == name || (p && p->attrs.contains(kInternalAttr)))
      alone.set(n, g);
  if (!f->attrs.contains("global_symbol")) {
    PrimFunc named = f;
    named.edit()->attrs.set("global_symbol", Any(name));
    alone.set(name, named);
  }
  PassContext context;
  context.target = target;
  context.opt_level = options.opt_level;
  IRModule lowered;
  std::vector<codegen::MachineFunction> listing;
  try {
    lowered = f->attrs.contains(kKernelAttr) ? alone : run_passes(alone, tensor_passes(), context);
    listing = codegen::code_generator(target).listing(lowered, target, options.opt_level);
  } catch (const DiagnosticError& e) {
    out.note = std::string("not lowered: ") + e.what();
    return out;
  }
  const PrimFunc kernel = lowered.find(name).cast<PrimFuncNode>();
  PrimFunc shown = kernel;
  shown.edit()->attrs.erase(kTraceAttr);
  out.text = print(shown);
  out.loop_lines = lines_of_loops(out.text);
  const auto numbers = codegen::number_loops(kernel);
  const std::string symbol = kernel->attrs.at("global_symbol").as<std::string>();
  const bool arm = target->triple.starts_with("aarch64");
  for (const codegen::MachineFunction& m : listing)
    if (m.kernel == symbol && !target->triple.starts_with("riscv")) find_loops(m, arm, out.machine);
  // How many iterations of the program one round of the machine does, told by the arithmetic in both.
  std::vector<double> flop(numbers.size(), 0);
  pre_order(kernel->body, [&](const ObjectRef& n) {
    Stmt body;
    if (const auto* l = n.as<For>()) body = l->body;
    if (const auto* l = n.as<tir::While>()) body = l->body;
    if (body)
      if (const auto w = work_of(body))
        flop[size_t(numbers.at(n.get()))] = w->flop - w->dot_bytes - w->dot_bf16;
    return !n.is<PrimExprNode>();
  });
  for (MachineLoop& m : out.machine)
    if (m.innermost && m.loop >= 0 && flop[size_t(m.loop)] > 0)
      m.rounds = int64_t(std::llround(m.counts.flop / flop[size_t(m.loop)]));
  Nests nests;
  (void)nests.stmt(kernel->body);
  for (const Stmt& s : nests.found) {
    LoopNest n;
    n.loop = numbers.at(s.get());
    if (const auto w = work_of(s)) n.work = *w;
    out.nests.push_back(n);
  }
  if (options.measure) out.note = measure(f, lowered, name, target, options, out.nests);
  return out;
}

}  // namespace

std::vector<KernelExplanation> explain(const IRModule& module, const Target& target,
                                       const ExplainOptions& options) {
  std::vector<KernelExplanation> out;
  bool found = options.function.empty();
  for (const auto& [name, object] : module.functions()) {
    const PrimFunc f = object.cast<PrimFuncNode>();
    if (!f || !f->body || f->attrs.contains(kInternalAttr) || f->attrs.contains(kMemoryOnlyAttr)) continue;
    if (!options.function.empty() && options.function != name) continue;
    found = true;
    if (!codegen::code_generator(target).listing) {
      out.push_back({name, {}, {}, {}, {}, "there is no assembly: the target is " + target->kind});
      continue;
    }
    out.push_back(explain_one(module, name, f, target, options));
  }
  if (!found)
    fail("T0923", fmt::format("there is no program `{}` in the module", options.function), {}, {},
         ErrorKind::usage);
  return out;
}

}  // namespace tenon
