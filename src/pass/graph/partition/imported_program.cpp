// SPDX-License-Identifier: Apache-2.0
#include "pass/graph/partition/imported_program.h"

#include <fmt/format.h>

#include "op/unify.h"

namespace tenon::graph {
namespace {

using tir::Buffer;
using tir::BufferRegion;

class Program {
 public:
  Program(const Function& region, const Array<tir::VarRef>& sizes, const tir::ImportedFunction& function)
      : function_(function) {
    for (const VarRef& p : region.params) reads_.push_back(tensor(p->name, p->declared));
    const Type result = op::function_type(region).as<FuncType>()->ret;
    const auto* tuple = result.as<TupleType>();
    for (const Type& t : tuple ? tuple->items : Array<Type>{result}) writes_.push_back(tensor("out", t));
    for (const tir::VarRef& v : sizes) {
      params_.push_back(v);
      args_.push_back(v);
    }
  }

  tir::PrimFunc build() const {
    const PrimExpr status = tir::call(i32, "tir.call_extern", args_);
    const tir::Stmt body = make<tir::AssertStmt>(make<tir::EQ>(status, PrimExpr::int_imm(0, i32)),
                                                 function_.symbol + " gave an error");
    const auto block =
        make<tir::Block>(Array<tir::IterVar>(), reads_, writes_, function_.symbol, body, tir::Stmt(),
                         Array<Buffer>(), Array<tir::MatchBufferRegion>(), AttrMap());
    AttrMap attrs;
    attrs.set(attribute(), Any(function_.text));
    attrs.set("num_outputs", Any(int64_t(writes_.size())));
    return make<tir::PrimFuncNode>(params_, buffers_,
                                   make<tir::BlockRealize>(Array<PrimExpr>(), tir::true_(), block),
                                   DataType::void_(), attrs);
  }

 private:
  BufferRegion tensor(const std::string& name, const Type& type) {
    const auto* t = type ? type.as<TensorType>() : nullptr;
    const auto shape = t ? known_shape(type) : std::nullopt;
    if (!shape)
      fail("T1154", fmt::format("an imported function takes tensors of known rank, and `{}` is none", name),
           {}, {}, ErrorKind::usage);
    const Buffer b = tir::buffer(name, *shape, t->dtype);
    const tir::VarRef param = tir::var("var_" + name, DataType::handle());
    params_.push_back(param);
    buffers_.set(param, b);
    args_.push_back(b->data);
    Array<tir::Range> whole;
    for (const PrimExpr& d : *shape) whole.push_back(tir::range(PrimExpr(0), d));
    return make<tir::BufferRegionNode>(b, whole);
  }

  std::string attribute() const {
    for (const auto language : tir::kImportLanguages)
      if (tir::to_string(language) == function_.language) return tir::import_attribute(language);
    fail("T1154", fmt::format("imported text is of the language c or llvm, not `{}`", function_.language), {},
         {}, ErrorKind::usage);
  }

  const tir::ImportedFunction& function_;
  Array<tir::VarRef> params_;
  Map<tir::VarRef, Buffer> buffers_;
  Array<BufferRegion> reads_, writes_;
  Array<PrimExpr> args_{make<tir::StringImm>(function_.symbol)};
};

}  // namespace

tir::PrimFunc imported_program(const Function& region, const Array<tir::VarRef>& sizes,
                               const tir::ImportedFunction& function) {
  return Program(region, sizes, function).build();
}

}  // namespace tenon::graph
