// SPDX-License-Identifier: Apache-2.0
// Attributes of the operators that place values on devices.
#pragma once
#include "op/attrs.h"

namespace tenon::op {

struct DeviceAttrs : Attrs<DeviceAttrs> {
  std::string device = "cpu:0";
  static constexpr std::string_view type_key = "attrs.Device";
  static void fields(auto& f) { f.add("device", &DeviceAttrs::device, "kind and number: 'cpu:0', 'cpu:1'"); }
};

}  // namespace tenon::op
