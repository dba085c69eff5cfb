// SPDX-License-Identifier: Apache-2.0
// Statements: branches, memory, status codes.
#include <fmt/format.h>
#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/MDBuilder.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <set>

#include "codegen/llvm/emitter.h"
#include "ir/find_node.h"

namespace tenon::codegen {

using namespace tir;
using V = llvm::Value*;

Emitter::Emitter(llvm::Module& module, const Target& target)
    : module_(module), target_(target), b_(module.getContext()), math_(b_) {
  llvm::FastMathFlags flags;
  flags.setAllowContract();
  b_.setFastMathFlags(flags);
}

std::string llvm_features(const Target& target) {
  std::string out = is_riscv(target) ? "+m,+a,+f,+d,+c" : "";  // RV64GC
  for (const std::string& f : target->features.vec()) {
    std::string name = f;
    if (f == "bmi1")
      name = "bmi";
    else if (f.starts_with("sse4_"))
      name[4] = '.';
    else if (f.starts_with("avx512_") || f.starts_with("avx_"))
      name.erase(name.find('_'), 1);
    else if (f.starts_with("amx_"))
      name[3] = '-';
    else if (f == "asimd")
      name = "neon";
    else if (f == "asimdhp")
      name = "fullfp16";
    else if (f == "asimddp")
      name = "dotprod";
    out += (out.empty() ? "+" : ",+") + name;
  }
  return out;
}

const char* base_cpu(const Target& target) {
  return is_arm(target) ? "generic" : is_riscv(target) ? "generic-rv64" : "x86-64";
}

void Emitter::finish_function(llvm::Function* f) {
  f->setDoesNotThrow();
  f->addFnAttr("target-cpu", base_cpu(target_));
  f->addFnAttr("target-features", llvm_features(target_));
  if (!target_->cpu.empty()) f->addFnAttr("tune-cpu", target_->cpu);
  f->addFnAttr("prefer-vector-width", std::to_string(target_->vector_bits));
  f->addFnAttr("min-legal-vector-width", std::to_string(target_->vector_bits));
  f->addFnAttr("no-trapping-math", "true");
}

void Emitter::emit(const Kernel& kernel) {
  const PrimFunc& f = kernel.function;
  symbol_ = kernel.symbol;
  bodies_ = constants_ = 0;
  asserts_ = number_asserts(f);
  bounds_ = BoundsOf();
  views_.clear();
  scopes_.clear();
  scope_order_.clear();
  accesses_.clear();
  noalias_ = f->attrs.get_or("tir.noalias", Any(false)).try_as<bool>().value_or(false);
  llvm::MDBuilder md(module_.getContext());
  domain_ = md.createAnonymousAliasScopeDomain(symbol_);

  llvm::Type* ptr = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getInt32Ty(), {ptr, ptr, ptr}, false);
  auto* fn = llvm::cast<llvm::Function>(
      module_.getOrInsertFunction(symbol_, type).getCallee());  // may be called already
  Frame frame;
  frame.function = fn;
  frame_ = &frame;
  const char* names[] = {"buffers", "scalars", "context"};
  for (unsigned k = 0; k < 3; ++k) {
    fn->getArg(k)->setName(names[k]);
    frame.values[f->params[k].get()] = fn->getArg(k);
  }
  fn->addParamAttr(0, llvm::Attribute::NoAlias);
  fn->addParamAttr(0, llvm::Attribute::ReadOnly);
  fn->addParamAttr(1, llvm::Attribute::NoAlias);
  fn->addParamAttr(1, llvm::Attribute::ReadOnly);
  frame.context = fn->getArg(2);
  finish_function(fn);
  kernel_line_ = 1;
  if (source_)
    kernel_line_ = line_of(f.get());
  else if (debug_)
    loops_ = number_loops(f);
  begin_marks(nullptr);
  b_.SetInsertPoint(block("entry"));
  mark(nullptr);
  begin_matrices(f->body);
  stmt(f->body);
  end_matrices();
  b_.CreateRet(b_.getInt32(0));
  frame_ = nullptr;

  // Alias facts need every memory of the kernel, so they are added at the end.
  if (!scope_order_.empty()) {
    std::unordered_map<llvm::MDNode*, std::pair<llvm::MDNode*, llvm::MDNode*>> lists;
    for (llvm::MDNode* scope : scope_order_) {
      llvm::SmallVector<llvm::Metadata*, 8> others;
      for (llvm::MDNode* s : scope_order_)
        if (s != scope) others.push_back(s);
      lists[scope] = {llvm::MDNode::get(module_.getContext(), {scope}),
                      others.empty() ? nullptr : llvm::MDNode::get(module_.getContext(), others)};
    }
    for (auto& [access, data] : accesses_) {
      auto it = scopes_.find(data);
      if (it == scopes_.end()) continue;
      access->setMetadata(llvm::LLVMContext::MD_alias_scope, lists[it->second].first);
      if (lists[it->second].second)
        access->setMetadata(llvm::LLVMContext::MD_noalias, lists[it->second].second);
    }
  }
  for (const std::string& alias : kernel.aliases) {
    auto* made = llvm::GlobalAlias::create(type, 0, llvm::GlobalValue::ExternalLinkage, "", fn, &module_);
    if (llvm::Function* declared = module_.getFunction(alias)) {
      declared->replaceAllUsesWith(made);
      declared->eraseFromParent();
    }
    made->setName(alias);
  }
}

const tir::Var* Emitter::root_of(const tir::Var* data) const {
  for (auto it = views_.find(data); it != views_.end(); it = views_.find(data)) data = it->second;
  return data;
}

/// Notes that an instruction touches the memory behind `data`.
void Emitter::decorate(llvm::Instruction* access, const tir::Var* data) {
  data = root_of(data);
  if (scopes_.count(data)) accesses_.emplace_back(access, data);
}

// ---------------------------------------------------------------- what became of loops
void Emitter::begin_debug(const char* file, const char* folder, llvm::DICompileUnit::DebugEmissionKind kind) {
  debug_ = std::make_unique<llvm::DIBuilder>(module_);
  file_ = debug_->createFile(file, folder);
  debug_->createCompileUnit(llvm::DISourceLanguageName(llvm::dwarf::DW_LANG_C11), file_, "tenon", true, "", 0,
                            "", kind);
  module_.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
}
void Emitter::mark_loops() { begin_debug("loops", ".", llvm::DICompileUnit::LineTablesOnly); }
void Emitter::mark_lines(const DebugSource& source) {
  source_ = &source;
  const std::filesystem::path path = source.file;
  begin_debug(path.filename().c_str(), path.parent_path().c_str(), llvm::DICompileUnit::FullDebug);
}
void Emitter::finish_marks() { debug_->finalize(); }
unsigned Emitter::line_of(const Object* node) const {
  if (source_) {
    const auto it = source_->lines.find(node);
    return it == source_->lines.end() ? kernel_line_ : unsigned(it->second);
  }
  const auto it = loops_.find(node);
  return it == loops_.end() ? 1 : unsigned(2 + it->second);
}
void Emitter::begin_marks(const Object* node) {
  if (!debug_) return;
  auto* type = debug_->createSubroutineType(debug_->getOrCreateTypeArray({}));
  const unsigned line = source_ ? line_of(node) : 1;
  frame_->marks = debug_->createFunction(file_, frame_->function->getName(), "", file_, line, type, line,
                                         llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition);
  frame_->function->setSubprogram(frame_->marks);
}
void Emitter::mark(const Object* node) {
  if (!debug_) return;
  b_.SetCurrentDebugLocation(llvm::DILocation::get(module_.getContext(), line_of(node), 0, frame_->marks));
}

static void loop_timer(LoopTimer* timer, int64_t begin) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t ns = int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
  if (begin)
    timer->begin = ns;
  else
    timer->total += ns - timer->begin;
}
void Emitter::timer(const AttrStmt& n, bool begin) {
  llvm::Type *i64t = b_.getInt64Ty(), *ptr = b_.getPtrTy();
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {i64t, i64t}, false);
  V function = b_.CreateIntToPtr(i64(int64_t(reinterpret_cast<intptr_t>(&loop_timer))), ptr);
  b_.CreateCall(type, function, {i64(*as_int(n.value)), i64(begin)});
}

// ---------------------------------------------------------------- status codes
void Emitter::release(V workspace) {
  auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getPtrTy()}, false);
  b_.CreateCall(type, context_field(2, b_.getPtrTy()), {frame_->context, workspace});
}
void Emitter::return_code(V code) {
  for (size_t k = frame_->workspaces.size(); k-- > 0;) release(frame_->workspaces[k]);
  end_matrices();
  b_.CreateRet(code);
}
void Emitter::return_if_nonzero(V code) {
  auto* failed = block("failed");
  auto* next = block("next");
  b_.CreateCondBr(b_.CreateICmpEQ(code, b_.getInt32(0)), next, failed,
                  llvm::MDBuilder(module_.getContext()).createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(failed);
  return_code(code);
  b_.SetInsertPoint(next);
}
V Emitter::context_field(unsigned k, llvm::Type* t) {
  V at = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), frame_->context, k);
  auto* l = b_.CreateLoad(t, at);
  l->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(module_.getContext(), {}));
  return l;
}
void Emitter::assertion(const AssertStmt& n) {
  auto* failed = block("assert_failed");
  auto* next = block("assert_holds");
  b_.CreateCondBr(root(n.condition), next, failed,
                  llvm::MDBuilder(module_.getContext()).createBranchWeights(1 << 20, 1));
  b_.SetInsertPoint(failed);
  return_code(b_.getInt32(uint32_t(1 + asserts_.at(&n))));
  b_.SetInsertPoint(next);
}

// ---------------------------------------------------------------- memory
V Emitter::stack(llvm::Type* t, int64_t align) {
  llvm::BasicBlock& entry = frame_->function->getEntryBlock();
  llvm::IRBuilder<> at(&entry, entry.getFirstInsertionPt());
  auto* a = at.CreateAlloca(t);
  a->setAlignment(llvm::Align(uint64_t(align)));
  return a;
}
V Emitter::allocate(const Buffer& b, bool* workspace) {
  *workspace = false;
  const std::optional<int64_t> count = constant_size(b);
  const int64_t bytes = b->dtype.bytes();
  if (count && *count * bytes <= kStackBytes && frame_->stack_bytes + *count * bytes <= kStackTotal) {
    frame_->stack_bytes += *count * bytes;
    return stack(llvm::ArrayType::get(memory_type(b->dtype), uint64_t(std::max<int64_t>(1, *count))), 64);
  }
  V total = i64(bytes);
  for (const PrimExpr& d : b->shape) total = b_.CreateNSWMul(total, index(d));
  auto* type = llvm::FunctionType::get(b_.getPtrTy(), {b_.getPtrTy(), b_.getInt64Ty()}, false);
  V memory = b_.CreateCall(type, context_field(1, b_.getPtrTy()), {frame_->context, total});
  auto* failed = block("out_of_memory");
  auto* next = block("allocated");
  b_.CreateCondBr(b_.CreateIsNull(memory), failed, next,
                  llvm::MDBuilder(module_.getContext()).createBranchWeights(1, 1 << 20));
  b_.SetInsertPoint(failed);
  return_code(b_.getInt32(uint32_t(-1)));
  b_.SetInsertPoint(next);
  frame_->workspaces.push_back(memory);
  *workspace = true;
  return memory;
}
bool Emitter::can_size(const Buffer& b) const {
  for (const PrimExpr& d : b->shape)
    for (const tir::VarRef& v : free_vars(d))
      if (!frame_->values.count(v.get())) return false;
  return true;
}
void Emitter::own_scope(const tir::Var* v) {
  if (scopes_.count(v)) return;
  scopes_[v] = llvm::MDBuilder(module_.getContext()).createAnonymousAliasScope(domain_, v->name);
  scope_order_.push_back(scopes_[v]);
}
void Emitter::enter(const Allocate& n, std::vector<V>& held) {
  if (enter_matrices(n)) return;
  bool workspace;
  V memory = allocate(n.buffer, &workspace);
  if (workspace) held.push_back(memory);
  memory->setName(n.buffer->name);
  frame_->values[n.buffer->data.get()] = memory;
  own_scope(n.buffer->data.get());
}
void Emitter::leave(const std::vector<V>& held) {
  for (size_t k = held.size(); k-- > 0;) {
    release(held[k]);
    frame_->workspaces.pop_back();
  }
}
V Emitter::constant_data(const AllocateConst& n) {
  const auto* bytes = static_cast<const char*>(n.data.data());
  llvm::Constant* data = llvm::ConstantDataArray::getRaw(llvm::StringRef(bytes, n.data.byte_size()),
                                                         n.data.byte_size(), b_.getInt8Ty());
  auto* global = new llvm::GlobalVariable(module_, data->getType(), true, llvm::GlobalValue::PrivateLinkage,
                                          data, fmt::format("{}.constant.{}", symbol_, constants_++));
  global->setAlignment(llvm::Align(64));
  return global;
}

void Emitter::store(const BufferStore& n) {
  frame_->memo.clear();
  frame_->memo_order.clear();
  const PrimExpr at = flat_index(n.buffer, n.indices);
  const DataType t = n.value.dtype();
  V value = value_to_memory(expr(n.value), t);
  const tir::Var* data = n.buffer->data.get();
  const llvm::Align align(uint64_t(t.element().bytes()));
  int64_t lanes = std::max<int64_t>(t.lanes, at.dtype().lanes);
  if (lanes == 1) {
    if (n.predicate && !is_const_int(n.predicate, 1)) {
      V condition = expr(n.predicate);
      auto* then = block("store");
      auto* next = block("stored");
      b_.CreateCondBr(condition, then, next);
      b_.SetInsertPoint(then);
      const size_t before = mark();
      decorate(b_.CreateAlignedStore(value, pointer(n.buffer, index(at)), align), data);
      forget(before);
      b_.CreateBr(next);
      b_.SetInsertPoint(next);
      return;
    }
    decorate(b_.CreateAlignedStore(value, pointer(n.buffer, index(at)), align), data);
    return;
  }
  if (t.lanes == 1) value = splat(value, lanes);
  V mask = n.predicate ? expr(n.predicate) : nullptr;
  if (mask && !mask->getType()->isVectorTy()) mask = splat(mask, lanes);
  if (auto* c = llvm::dyn_cast_or_null<llvm::Constant>(mask); c && c->isAllOnesValue()) mask = nullptr;
  if (at.dtype().is_scalar()) {  // one place for many lanes: the last lane wins
    CHECK(!mask, "a masked vector store needs a vector index");
    decorate(b_.CreateAlignedStore(b_.CreateExtractElement(value, uint64_t(lanes - 1)),
                                   pointer(n.buffer, index(at)), align),
             data);
    return;
  }
  auto affine = as_affine(at);
  const auto stride = affine ? as_int(affine->stride) : std::nullopt;
  if (stride == 1 || stride == -1) {
    PrimExpr first =
        *stride == 1 ? affine->base : affine->base - PrimExpr::int_imm(lanes - 1, affine->base.dtype());
    if (*stride == -1) {
      value = b_.CreateVectorReverse(value);
      if (mask) mask = b_.CreateVectorReverse(mask);
    }
    V p = pointer(n.buffer, index(first));
    decorate(mask ? (llvm::Instruction*)b_.CreateMaskedStore(value, p, align, mask)
                  : b_.CreateAlignedStore(value, p, align),
             data);
    return;
  }
  if (affine && !mask && lanes <= 64) {
    V first = index(affine->base), by = index(affine->stride);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      V p = pointer(n.buffer, b_.CreateNSWAdd(first, b_.CreateNSWMul(by, i64(lane))));
      decorate(b_.CreateAlignedStore(b_.CreateExtractElement(value, uint64_t(lane)), p, align), data);
    }
    return;
  }
  V pointers = pointer(n.buffer, index(at));
  decorate(b_.CreateMaskedScatter(value, pointers, align, mask), data);
}

// ---------------------------------------------------------------- control
void Emitter::branch(const IfThenElse& n) {
  if (auto known = as_int(n.condition)) {
    if (*known)
      stmt(n.then_case);
    else if (n.else_case)
      stmt(n.else_case);
    return;
  }
  auto* then = block("then");
  auto* otherwise = n.else_case ? block("else") : nullptr;
  auto* next = block("endif");
  b_.CreateCondBr(root(n.condition), then, otherwise ? otherwise : next);
  b_.SetInsertPoint(then);
  stmt(n.then_case);
  b_.CreateBr(next);
  if (otherwise) {
    b_.SetInsertPoint(otherwise);
    stmt(n.else_case);
    b_.CreateBr(next);
  }
  b_.SetInsertPoint(next);
}

void Emitter::stmt(Stmt s) {
  std::vector<V> held;  // workspaces of this chain of scopes
  // Scopes that only add a name are a loop, not recursion: there can be thousands of them.
  for (Stmt next; s; s = next) {
    next = Stmt();
    forget_matrices(s);
    if (source_ && source_->lines.count(s.get())) mark(s.get());
    match<void>(
        s, [&](const For& n) { loop(n); }, [&](const tir::While& n) { while_loop(n); },
        [&](const IfThenElse& n) { branch(n); },
        [&](const LetStmt& n) {
          V value = root(n.value);
          if (!llvm::isa<llvm::Constant>(value)) value->setName(n.var->name);
          frame_->values[n.var.get()] = value;
          if (n.var->dtype.is_handle()) {
            const auto* c = n.value.as<tir::Call>();
            if (c && c->op == "tir.kernel_buffer" && noalias_)
              own_scope(n.var.get());
            else if (c && c->op == "tir.address_of")
              views_[n.var.get()] = c->args[0].as<BufferLoad>()->buffer->data.get();
            else if (const auto* v = n.value.as<tir::Var>())
              views_[n.var.get()] = v;
          } else if (n.var->dtype.is_integer()) {
            bounds_.set(n.var.get(), bounds_(n.value));
          }
          next = n.body;
        },
        [&](const Allocate& n) {
          enter(n, held);
          next = n.body;
        },
        [&](const AllocateConst& n) {
          frame_->values[n.buffer->data.get()] = constant_data(n);
          own_scope(n.buffer->data.get());
          next = n.body;
        },
        [&](const DeclBuffer& n) { next = n.body; },
        [&](const AttrStmt& n) {
          if (n.key != kTimerKey) return void(next = n.body);
          timer(n, true);
          stmt(n.body);
          timer(n, false);
        },
        [&](const BufferStore& n) { store(n); }, [&](const AssertStmt& n) { assertion(n); },
        [&](const Evaluate& n) { root(n.value); },
        [&](const SeqStmt& n) {
          for (const Stmt& t : n.seq) stmt(t);
        },
        [&](const StmtNode& n) {
          CHECK(false, "statement not in the lowered form: " + std::string(type_of(&n)->key));
        });
    forget_matrices(s);
  }
  leave(held);
}

}  // namespace tenon::codegen
