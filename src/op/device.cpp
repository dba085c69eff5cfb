// SPDX-License-Identifier: Apache-2.0
// Operators that say where values lie: a wish, which plan_devices carries out, and the copy that it places.
#include "op/device.h"

#include "base/define_type.h"
#include "op/family.h"

namespace tenon::op {
namespace {

const bool device_registered = [] {
  register_op("hint_on_device", "The operand; plan_devices computes it on the given device.")
      .argument("x", "Tensor", "the operand")
      .attrs<DeviceAttrs>()
      .infer(infer_same)
      .fusion(FusionKind::element_wise)
      .tensor_def([](const Call&, const std::vector<te::Tensor>& in) {
        return std::vector<te::Tensor>{copy_of(in[0], "hint_on_device")};
      })
      .placement(Placement::hint);
  register_op("to_device", "A copy of the operand on the given device.")
      .argument("x", "Tensor", "the operand")
      .attrs<DeviceAttrs>()
      .infer([](InferContext& ctx) -> Type {
        const auto& x = ctx.tensor(0);
        return make<graph::TensorType>(x.shape, x.ndim, x.dtype, ctx.attrs<DeviceAttrs>().device);
      })
      // A copy is work of its own, never part of a kernel of either side.
      .fusion(FusionKind::opaque)
      .tensor_def([](const Call&, const std::vector<te::Tensor>& in) {
        return std::vector<te::Tensor>{copy_of(in[0], "to_device")};
      })
      .placement(Placement::copy);
  return true;
}();

}  // namespace
}  // namespace tenon::op

template struct tenon::DefineTypes<tenon::op::DeviceAttrs>;
