// SPDX-License-Identifier: Apache-2.0
// plan_devices: every value gets a device, and copies stand where values cross.
//
//   before   lv = R.exp(x);  h = R.hint_on_device(lv, device="cpu:1");  lv1 = R.sin(h)
//   after    x_1 = R.to_device(x, "cpu:1");  lv = R.exp(x_1);  lv1 = R.sin(lv)         # lv, lv1 on cpu:1
//
// A hint places the value that it is given; other calls run where their first placed operand lies, parameters
// where their type says, all else on "plan_devices.default" ("cpu:0"). Results of entries come back to the
// device of their hint only. Types say where values lie; constants go along. Branches and loops see the
// devices of what stands before them. Several devices of this version are all the host's memory, so copies
// are copies of memory. Needs: types. Keeps: values.
#include <algorithm>

#include "op/body_rewriter.h"
#include "op/build.h"
#include "op/device.h"

namespace tenon {
namespace graph {
namespace {

const std::string* hint_of(const Expr& value) {
  const Op* op = op_of(value);
  if (!op || op::definition(*op).placement != op::Placement::hint) return nullptr;
  return &op::attrs_of<op::DeviceAttrs>(*value.as<Call>()).device;
}

class PlanDevices : public BodyRewriter {
 public:
  PlanDevices(const Function& f, std::string otherwise) : default_(std::move(otherwise)) {
    // A hint is a wish about its operand.
    for_each_binding(f.body, [&](const Binding& b) {
      const Expr value = b->value;
      if (const std::string* device = hint_of(value)) {
        any_ = true;
        if (const auto* v = value.as<Call>()->args[0].as<Var>()) wanted_.try_emplace(v, *device);
      }
    });
    for (const VarRef& p : f.params)
      if (const auto* t = as_tensor(p->declared); t && !t->device.empty())
        device_[p.get()] = t->device, any_ = true;
  }
  bool anything() const { return any_; }

 protected:
  Expr visit(const Expr& value, const VarRef& var) override {
    const Op* op = op_of(value);
    const Type type = var->declared ? var->declared : value->type;
    if (!op) return value;
    const Call& c = *value.as<Call>();
    if (const std::string* device = hint_of(value)) return on(c.args[0], *device);
    if (!as_tensor(type) || op::definition(*op).placement != op::Placement::with_operands) return value;
    std::string device = default_;
    if (auto wish = wanted_.find(var.get()); wish != wanted_.end())
      device = wish->second;
    else
      for (const Expr& a : c.args)
        if (const std::string at = device_of(a); !at.empty()) {
          device = at;
          break;
        }
    Array<Expr> args = c.args.map([&](const Expr& a) { return placed(a, device); });
    const auto* t = as_tensor(type);
    return with_type(call(c.op, args, c.attrs, c.type_args),
                     make<TensorType>(t->shape, t->ndim, t->dtype, device), c.origin);
  }

 private:
  static bool as_tensor_arg(const Expr& a) { return a && a.is<Var>() && as_tensor(a); }
  /// An argument, or a tuple of them, with its tensors on that device.
  Expr placed(const Expr& a, const std::string& device) {
    if (as_tensor_arg(a)) return on(a, device);
    const auto* tuple = a ? a.as<Tuple>() : nullptr;
    return tuple ? op::tuple(tuple->items.map([&](const Expr& i) { return placed(i, device); })) : a;
  }
  std::string device_of(const Expr& a) const {
    if (const auto* tuple = a ? a.as<Tuple>() : nullptr) {
      for (const Expr& i : tuple->items)
        if (const std::string at = device_of(i); !at.empty()) return at;
      return {};
    }
    if (!as_tensor_arg(a)) return {};
    if (const auto it = device_.find(a.as<Var>()); it != device_.end()) return it->second;
    return as_tensor(a)->device;
  }
  /// The value on that device: itself, or a copy that is made once in this body.
  Expr on(const Expr& a, const std::string& device) {
    const std::string at = device_of(a);
    if (at.empty() ? device == default_ : at == device) return a;
    auto& copies = copies_[a.as<Var>()];
    for (const auto& [where, copy] : copies)
      if (where == device && definition(copy)) return copy;
    Expr moved = op::op_call("to_device", {a}, op::make_attrs<op::DeviceAttrs>(device));
    moved = emit(moved, a.as<Var>()->name + "_moved");
    copies.emplace_back(device, moved);
    scope_copies_.back().push_back(a.as<Var>());
    return moved;
  }
  void enter_scope() override { scope_copies_.emplace_back(); }
  /// What a branch copied is not there behind it.
  void leave_scope() override {
    for (const Var* v : scope_copies_.back()) copies_[v].pop_back();
    scope_copies_.pop_back();
  }

  std::string default_;
  bool any_ = false;
  std::unordered_map<const Var*, std::string> wanted_, device_;
  std::unordered_map<const Var*, std::vector<std::pair<std::string, Expr>>> copies_;
  std::vector<std::vector<const Var*>> scope_copies_;
};

}  // namespace
}  // namespace graph

static const Option<std::string> kDefaultDevice("plan_devices.default", "cpu:0",
                                                "the device of values that nothing places");

static IRModule plan_devices(IRModule module, PassContext& context) {
  using namespace graph;
  const auto otherwise = context.options.get(kDefaultDevice);
  return module.map_graph([&](const std::string&, const Ref<graph::Function>& f) -> ObjectRef {
    if (!f->body) return {};
    PlanDevices rewriter(*f, otherwise);
    if (!rewriter.anything()) return {};
    Ref<graph::Function> out = rewriter.run(f);
    return out.same_as(f) ? ObjectRef() : ObjectRef(out);
  });
}

const Pass& plan_devices_pass = register_pass({
    .name = "plan_devices",
    .run = plan_devices,
    .summary = "every value gets a device; copies where values cross",
    .needs = {"infer_types"},
    .options = {kDefaultDevice},
});

}  // namespace tenon
