// SPDX-License-Identifier: Apache-2.0
// Decoding an executable into the steps of the register machine, once, with the kernels and functions that
// they call; the artifact that holds both.
#include <algorithm>

#include "runtime/library.h"
#include "runtime/machine.h"

namespace tenon {

[[gnu::cold]] bool names_any(const Executable& e, const char* key) {
  for (const auto& m : e.metadata)
    if (m.first.starts_with(key)) return true;
  return false;
}

namespace {

/// Marks the allocations that reach the only return of `main`, alone or in its tuple: those may be the
/// caller's buffers from the start. A register may serve several tensors: what counts is its last writer in
/// front of the reader, where all steps between them follow each other.
[[gnu::cold]] void find_outputs(const Executable& e, Program& program) {
  const VMFunction& f = e.functions[program.main];
  Step* steps = program.steps.data() + f.first_instruction;
  std::vector<int32_t> writes(size_t(f.num_registers), 0);
  int32_t ret = -1, num_rets = 0, straight = 0;  // from there on no step jumps, and none is jumped to
  for (int32_t i = 0; i < int32_t(f.num_instructions); ++i) {
    const Step& s = steps[i];
    if (s.kind == Step::Ret)
      ret = i, ++num_rets;
    else if (s.kind == Step::Goto || s.kind == Step::If)
      straight = std::max({straight, i + 1, i + s.offset});
    else if (s.dst >= 0)
      ++writes[size_t(s.dst)];
  }
  if (num_rets != 1) return;
  auto writer = [&](int32_t reg, int32_t reader) -> Step* {
    int32_t i = reader - 1;
    while (i >= 0 && (steps[i].dst != reg || steps[i].kind == Step::Goto || steps[i].kind == Step::If)) --i;
    return i >= 0 && reg >= f.num_params && (i >= straight || writes[size_t(reg)] == 1) ? &steps[i] : nullptr;
  };
  auto mark = [&](int32_t reg, int32_t reader, int32_t output) {
    if (Step* s = writer(reg, reader); s && is_allocation(*s)) s->output = output;
  };
  const Step* last = writer(steps[ret].dst, ret);
  if (!last || !is_tuple(*last)) return mark(steps[ret].dst, ret, 0);
  for (uint32_t k = 0; k < last->num_args; ++k)
    if (last->args[k].kind() == ArgKind::Register)
      mark(int32_t(last->args[k].value()), int32_t(last - steps), int32_t(k));
}

[[gnu::cold]] void find_symbols(const Executable& e, Program& program) {
  for (const ValueInfo& p : e.functions[program.main].params) {
    std::vector<int32_t> numbers;
    for (const DimInfo& d : p.shape) {
      int32_t n = -1;
      if (!d.symbol.empty()) {
        auto it = std::ranges::find(program.symbols, d.symbol);
        n = int32_t(it - program.symbols.begin());
        if (it == program.symbols.end()) program.symbols.push_back(d.symbol);
      }
      numbers.push_back(n);
    }
    program.symbol_of.push_back(std::move(numbers));
  }
  for (const std::string& symbol : program.symbols) {
    program.symbol_bounds.push_back(-1);
    for (const auto& [key, value] : e.metadata)
      if (key == "bound." + symbol) program.symbol_bounds.back() = std::strtoll(value.c_str(), nullptr, 10);
  }
}

[[gnu::cold]] std::unique_ptr<Program> decode(const Executable& e, const Artifact::Resolver& resolver,
                                              const LoadOptions& options) {
  auto program = std::make_unique<Program>();
  struct Found {
    TenonKernel kernel = nullptr;
    BuiltinCode builtin = nullptr;
    const FunctionObj* packed = nullptr;
  };
  std::vector<Function> modules;  // each from the name of a kernel to its function
  for (const CodeModule& m : e.modules) {
    const Function loader = registry::find("loader." + m.loader);
    if (!loader)
      throw Error(ErrorKind::model, "T0614",
                  joined({"this process has no loader `", m.loader, "` for the model's code"}), {},
                  "load the library that registers it first");
    if (Function find = loader(m.bytes).as<Function>()) modules.push_back(std::move(find));
  }
  std::vector<Found> found(e.callees.size());
  for (size_t i = 0; i < e.callees.size(); ++i) {
    const Callee& c = e.callees[i];
    if (c.kind == CalleeKind::Kernel) {
      found[i].kernel = reinterpret_cast<TenonKernel>(resolver ? resolver(c.name) : nullptr);
      for (size_t k = 0; !found[i].kernel && !found[i].packed && k < modules.size(); ++k)
        if (Function f = modules[k](c.name).as<Function>()) {
          found[i].packed = f.get();
          program->functions.push_back(std::move(f));
        }
      if (!found[i].kernel && !found[i].packed)
        throw Error(ErrorKind::model, "T0608", joined({"the code has no kernel `", c.name, "`"}), {},
                    "compile the model again");
    } else if (c.kind == CalleeKind::Builtin) {
      if (const BuiltinInfo* builtin = find_builtin(c.name)) {
        found[i].builtin = builtin->code;
        continue;
      }
      Function f = options.find_function ? options.find_function(c.name) : Function();
      if (!f) f = find_function(c.name);
      if (!f)
        throw Error(ErrorKind::model, "T0609",
                    joined({"the function `", c.name, "` is not registered in this process"}), {},
                    "register it before the model is loaded");
      found[i].packed = f.get();
      program->functions.push_back(std::move(f));
    }
  }
  program->steps.resize(e.code.size());
  for (size_t i = 0; i < e.code.size(); ++i) {
    const Instruction& in = e.code[i];
    Step& s = program->steps[i];
    s.dst = in.dst;
    s.offset = in.offset;
    s.args = e.args.data() + in.first_arg;
    s.num_args = in.num_args;
    program->max_args = std::max(program->max_args, in.num_args);
    switch (in.op) {
      case Opcode::Ret:
        s.kind = Step::Ret;
        continue;
      case Opcode::Goto:
        s.kind = Step::Goto;
        continue;
      case Opcode::If:
        s.kind = Step::If;
        continue;
      case Opcode::Call:
        break;
    }
    s.callee = &e.callees[in.callee];
    s.function = s.callee->index;
    s.num_buffers = uint32_t(s.callee->num_buffers);
    s.kernel = found[in.callee].kernel;
    s.builtin = found[in.callee].builtin;
    s.packed = found[in.callee].packed;
    s.kind = s.kernel ? Step::Kernel : s.builtin ? Step::Builtin : s.packed ? Step::Packed : Step::Call;
  }
  program->uses_arena.assign(e.functions.size(), 0);
  for (size_t i = 0; i < e.functions.size(); ++i) {
    const VMFunction& f = e.functions[i];
    Step* steps = program->steps.data() + f.first_instruction;
    for (uint32_t k = 0; k < f.num_instructions; ++k)
      for (uint32_t a = 0; a < steps[k].num_args; ++a)
        if (steps[k].args[a].kind() == ArgKind::Arena) program->uses_arena[i] = 1;
    // A caller with tensors in the arena outlives its calls.
    for (uint32_t k = 0; k + 1 < f.num_instructions && !program->uses_arena[i]; ++k)
      if (steps[k].kind == Step::Call && steps[k + 1].kind == Step::Ret && steps[k].dst == steps[k + 1].dst)
        steps[k].kind = Step::TailCall;
  }
  for (const NDArray& c : e.constants) program->constant_data.push_back(c.data());
  for (size_t i = 0; i < e.functions.size(); ++i)
    if (e.functions[i].name == "main") {
      program->main = int32_t(i);
      break;
    }
  if (names_any(e, kCallsKey)) {
    KernelNames names{&e, &options, &program->kernel_calls};
    program->packed_call =
        reinterpret_cast<PackedCall>(find_function(kKernelBind)(Any(static_cast<void*>(&names))).as<void*>());
  }
  find_outputs(e, *program);
  find_symbols(e, *program);
  return program;
}

}  // namespace

ArtifactObj::ArtifactObj() = default;
ArtifactObj::~ArtifactObj() = default;

[[gnu::cold]] Artifact Artifact::from_executable(Executable executable, const Resolver& resolver,
                                                 std::shared_ptr<void> keep, const LoadOptions& options) {
  check_executable(executable);
  Artifact artifact(make<ArtifactObj>());
  ArtifactObj* o = artifact.mut();
  o->keep = std::move(keep);
  o->executable = std::move(executable);
  o->program = decode(o->executable, resolver, options);
  return artifact;
}

const VMFunction& Artifact::main() const { return get()->executable.functions[get()->program->main]; }

[[gnu::cold]] const std::string* Artifact::metadata(std::string_view key) const {
  for (const auto& [k, v] : executable().metadata)
    if (k == key) return &v;
  return nullptr;
}

}  // namespace tenon
