// SPDX-License-Identifier: Apache-2.0
// NDArray to and from DLPack, without copies.
#pragma once
#include <tenon/dlpack.h>

#include "runtime/ndarray.h"

namespace tenon {

/// Whether nobody may write the elements: constants of an artifact, memory that its owner gave to be read,
/// and views of them.
bool is_read_only(const NDArray& array);
void make_read_only(NDArray& array);

/// A view of a borrowed tensor. Error "T0404" when it is not compact and row-major, "T0405" when it is
/// malformed.
NDArray view_of(const DLTensor& tensor);
/// Takes the tensor over: its deleter runs when the last handle goes. On an error it stays the caller's.
NDArray from_dlpack(DLManagedTensorVersioned* tensor);
NDArray from_dlpack(DLManagedTensor* tensor);
/// A tensor that keeps the array alive until its deleter is called. The form without a version cannot say
/// that an array is read-only (Error "T0406").
DLManagedTensorVersioned* to_dlpack(const NDArray& array);
DLManagedTensor* to_dlpack_unversioned(const NDArray& array);
/// Borrowed fields of an array; shape points into it, strides are null (compact).
DLTensor dlpack_view(const NDArray& array);

}  // namespace tenon
