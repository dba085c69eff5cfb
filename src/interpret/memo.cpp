// SPDX-License-Identifier: Apache-2.0
#include "interpret/memo.h"

#include <cstring>

#include "ir/calls_out.h"
#include "ir/structural.h"
#include "ir/tir.h"
#include "ir/walk.h"
#include "runtime/executable.h"

namespace tenon {
namespace {

uint64_t mixed(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ull;
  return h ^ (h >> 29);
}

/// False: a value that is not compared (closures, cells, packed functions).
bool hash_value(const Value& v, uint64_t& h) {
  h = mixed(h, v.tag());
  if (!v.is_object()) {
    if (v.tag() == kPointer) return false;
    if (auto d = v.try_as<double>()) {
      uint64_t bits;
      std::memcpy(&bits, &*d, sizeof bits);
      h = mixed(h, bits);
    }
    return true;
  }
  if (auto a = v.try_as<NDArray>()) {
    h = mixed(h, a->hash());
    return true;
  }
  if (is_type_index<ShapeObj>(v.tag())) {
    for (int64_t d : static_cast<const ShapeObj*>(v.object())->dims) h = mixed(h, uint64_t(d));
    return true;
  }
  if (!is_type_index<ArrayObj>(v.tag())) return false;
  for (const Any& i : static_cast<const ArrayObj*>(v.object())->items)
    if (!hash_value(i, h)) return false;
  return true;
}

bool same_value(const Value& a, const Value& b) {
  if (a.same_as(b)) return true;
  if (a.tag() != b.tag() || !a.is_object()) return false;
  if (auto x = a.try_as<NDArray>()) {
    const NDArray y = b.as<NDArray>();
    return x->dtype() == y.dtype() && x->shape() == y.shape() &&
           std::memcmp(x->data(), y.data(), x->byte_size()) == 0;
  }
  if (is_type_index<ShapeObj>(a.tag()))
    return static_cast<const ShapeObj*>(a.object())->dims == static_cast<const ShapeObj*>(b.object())->dims;
  if (!is_type_index<ArrayObj>(a.tag())) return false;
  const auto &x = static_cast<const ArrayObj*>(a.object())->items,
             &y = static_cast<const ArrayObj*>(b.object())->items;
  if (x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!same_value(x[i], y[i])) return false;
  return true;
}

}  // namespace

std::optional<InterpretMemo::Key> InterpretMemo::key(ObjectRef what, ObjectRef attrs,
                                                     std::vector<Value> values, std::string forms) {
  uint64_t h = hash_bytes(forms.data(), forms.size());
  if (const tir::PrimFunc f = what.cast<tir::PrimFuncNode>()) {
    Program& p = programs_[f.get()];
    if (!p.keep) {
      p.keep = f;
      p.hash = structural_hash(f);
      post_order(f->body, [&](const ObjectRef& node) {
        const auto* call = node.as<tir::Call>();
        p.alone = p.alone && !(call && tir::calls_out(call->op));
      });
    }
    if (!p.alone) return std::nullopt;
    h = mixed(h, p.hash);
  } else {
    h = mixed(h, uint64_t(reinterpret_cast<uintptr_t>(what.get())));  // operators live for ever
  }
  if (attrs) h = mixed(h, structural_hash(attrs));
  for (const Value& v : values)
    if (!hash_value(v, h)) return std::nullopt;
  return Key{std::move(what), std::move(attrs), std::move(values), std::move(forms), h};
}

const InterpretMemo::Entry* InterpretMemo::find(const Key& key) const {
  auto it = entries_.find(key.hash);
  if (it == entries_.end()) return nullptr;
  for (const Entry& e : it->second) {
    if (e.key.forms != key.forms || e.key.values.size() != key.values.size()) continue;
    bool same = true;
    for (size_t i = 0; same && i < key.values.size(); ++i) same = same_value(e.key.values[i], key.values[i]);
    if (!same || bool(e.key.attrs) != bool(key.attrs)) continue;
    if (!e.key.what.same_as(key.what) && !structural_equal(e.key.what, key.what)) continue;
    if (key.attrs && !e.key.attrs.same_as(key.attrs) && !structural_equal(e.key.attrs, key.attrs)) continue;
    return &e;
  }
  return nullptr;
}

void InterpretMemo::store(Entry entry) {
  size_t bytes = 0;
  for (const NDArray& a : entry.outputs) bytes += a.byte_size();
  for (const Value& v : entry.key.values)
    if (auto a = v.try_as<NDArray>(); a && *a) bytes += a->byte_size();
  if (bytes > max_bytes_ - bytes_) return;
  bytes_ += bytes;
  const uint64_t hash = entry.key.hash;
  entries_[hash].push_back(std::move(entry));
}

}  // namespace tenon
