// SPDX-License-Identifier: Apache-2.0
// What passes may do to values: nothing, but for those that compute on narrower floats.
#pragma once
#include "ir/pass.h"

namespace tenon {

/// The largest relative error that the pass gives each floating value by rounding it; 0: results stay.
double rounding_of(const Pass& pass);

}  // namespace tenon
