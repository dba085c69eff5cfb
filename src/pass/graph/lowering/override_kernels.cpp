// SPDX-License-Identifier: Apache-2.0
// override_kernels: kernels that a person edited take the places of the model's.
//
//   before   lv = R.call_tir(fused_add, (x, y), …)           override_kernels.folders: edited
//   after    the same, fused_add as edited/fused_add.tir has it
//
// Each program in the files NAME.tir of the folders fits the kernel of its name: one that fits none is
// refused (T1035), and one of other parameters (T1036). What is put in computes the same: proved by its
// structure, by the schedule that it carries or by what each element is computed from, else tried on random
// and corner inputs; the attribute "tenon.override" says which. One that does not is refused with the first
// input on which it differs (T1037). One whose trace lays parameters out anew, those that its attribute
// layout_free_buffers lists, gets them so from its callers: constants are laid out here, other values by a
// program in front of each call. A program with a trace, or with "tenon.schedule_rule": "none", keeps its
// loops; another one is scheduled as any. Stands in front of plan_memory, which must know the programs: one
// written by hand never writes over its inputs. Keeps: values.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "analysis/kernel_work.h"
#include "base/diagnostic.h"
#include "base/nearest.h"
#include "ir/attr_keys.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "pass/graph/lowering/equivalence.h"
#include "pass/graph/lowering/lay_out_arguments.h"
#include "pass/graph/lowering/override_kernels.h"

namespace tenon {
namespace graph {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  if (!in) throw Error(ErrorKind::io, "T3001", "cannot read " + path.string() + ": " + std::strerror(errno));
  return bytes.str();
}

IRModule read_programs(const fs::path& path) {
  ConstantTable constants;
  ParseOptions parse;
  parse.name = path.string();
  const fs::path beside = fs::path(path).replace_extension(".constants");
  if (fs::exists(beside)) {
    constants = load_constants(beside.string());
    parse.constants = &constants;
  }
  IRModule module = parse_module(read_text(path), parse);
  verify_or_throw(module);
  return module;
}

class Override {
 public:
  Override(IRModule module, Evaluate evaluate) : module_(std::move(module)), evaluate_(std::move(evaluate)) {
    for (const auto& [name, f] : module_.functions())
      if (f.is<tir::PrimFuncNode>()) kernels_.push_back(name);
  }

  void folder(const std::string& path) {
    for (const fs::path& file : override_files(path)) {
      const IRModule programs = read_programs(file);
      if (programs.functions().empty())
        problems_.add(Diagnostic{"T1035",
                                 "the file has no program",
                                 file.string(),
                                 "`tenon extract MODEL KERNEL -o DIR` writes one",
                                 {}});
      for (const auto& [name, f] : programs.functions())
        program(file.string(), name, f.cast<tir::PrimFuncNode>());
    }
  }
  IRModule result() {
    problems_.throw_if_any();
    return module_;
  }

 private:
  void program(const std::string& file, const std::string& name, const tir::PrimFunc& edited) {
    const auto problem = [&](const char* code, std::string message, std::string hint) {
      problems_.add(Diagnostic{code, std::move(message), file, std::move(hint), {}});
    };
    const auto kernel = module_.find(name).cast<tir::PrimFuncNode>();
    if (!edited || !kernel)
      return problem("T1035",
                     edited ? fmt::format("the model has no kernel `{}`", name)
                            : fmt::format("`{}` is no tensor program", name),
                     did_you_mean(name, kernels_, "its kernels are "));
    if (!given_.insert(name).second)
      return problem("T1035", fmt::format("the kernel `{}` is given twice", name),
                     "leave one of the files out");
    tir::PrimFunc whole = edited;
    if (!edited->attrs.contains("num_outputs") && kernel->attrs.contains("num_outputs"))
      whole.edit()->attrs.set("num_outputs", kernel->attrs.at("num_outputs"));
    const tir::Equivalence same = tir::equivalence_of(kernel, whole, evaluate_);
    if (!same.by && !tir::same_signature(kernel, whole))
      return problem("T1036",
                     fmt::format("the kernel `{}` takes {}; the model's takes {}", name,
                                 tir::signature_of(whole), tir::signature_of(kernel)),
                     "extract it with the options that the model is compiled with (--dim, --target, -O …)");
    if (!same.by)
      return problem("T1037", fmt::format("the kernel `{}` is not the model's: {}", name, same.difference),
                     "`tenon extract` writes the model's own again");
    module_.set(name, put_in(kernel, whole, same, file));
    module_ = lay_out_arguments(std::move(module_), name, same.layouts, evaluate_);
  }

  /// The edited program with the attributes of the model's, but for what arranges its loops.
  static tir::PrimFunc put_in(const tir::PrimFunc& kernel, const tir::PrimFunc& edited,
                              const tir::Equivalence& same, const std::string& file) {
    tir::PrimFunc out = edited;
    AttrMap attrs = kernel->attrs;
    attrs.erase(kScheduleRuleAttr);
    const bool by_hand = same.by == tir::Equivalence::By::values || same.by == tir::Equivalence::By::trials;
    if (same.by == tir::Equivalence::By::schedule)
      attrs.set(kTraceAttr, edited->attrs.at(kTraceAttr));
    else if (by_hand && edited->attrs.contains(kTraceAttr))
      attrs.set(kScheduleRuleAttr, Any("none"));  // the trace is not what made these loops
    else if (const auto rule = edited->attrs.find(kScheduleRuleAttr))
      attrs.set(kScheduleRuleAttr, *rule);
    if (const auto work = kernel_work(kernel)) attrs.set(kWorkAttr, Any(work_text(*work)));
    if (by_hand) attrs.set(kNotInPlaceAttr, Any(true));
    attrs.set(kOverrideAttr, Any(fmt::format("{}: {}", file, to_string(same))));
    out.edit()->attrs = attrs;
    return out;
  }

  IRModule module_;
  Evaluate evaluate_;
  std::vector<std::string> kernels_;
  std::set<std::string> given_;
  DiagnosticList problems_;
};

}  // namespace

std::vector<fs::path> override_files(const std::string& folder) {
  std::error_code failure;
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder, failure))
    if (entry.path().extension() == ".tir") out.push_back(entry.path());
  if (failure)
    throw Error(ErrorKind::io, "T3001", "the folder of kernels cannot be read: " + failure.message(), folder);
  if (out.empty())
    throw Error(ErrorKind::usage, "T1035", "the folder has no kernel: no file NAME.tir", folder,
                "`tenon extract MODEL KERNEL -o DIR` writes one");
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace graph

static const Option<Array<std::string>> kFolders("override_kernels.folders", {},
                                                 "folders of edited kernels, files NAME.tir");

static IRModule override_kernels(IRModule module, PassContext& context) {
  const Array<std::string> folders = context.options.get(kFolders);
  if (folders.empty()) return module;
  graph::Override override(std::move(module), context.evaluate);
  for (const std::string& folder : folders) override.folder(folder);
  return override.result();
}

const Pass& override_kernels_pass = register_pass({
    .name = "override_kernels",
    .run = override_kernels,
    .summary = "kernels that a person edited take the places of the model's",
    .needs = {"lower_to_call_tir"},
    .changes = Changes::sum_order,
    .options = {kFolders},
});

}  // namespace tenon
