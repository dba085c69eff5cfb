// SPDX-License-Identifier: Apache-2.0
#include "tools/quantize/ranges.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/diagnostic.h"
#include "base/nearest.h"

namespace tenon {

RangeMethod parse_range_method(const std::string& name) {
  if (name == "minmax") return RangeMethod::min_max;
  if (name == "percentile") return RangeMethod::percentile;
  if (name == "entropy") return RangeMethod::entropy;
  throw Error(ErrorKind::usage, "T0950", "there is no method of calibration `" + name + "`", {},
              did_you_mean(name, std::vector<std::string>{"minmax", "percentile", "entropy"}, "methods: "));
}

bool Histogram::widen(const float* values, int64_t count) {
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    finite = finite && std::isfinite(values[i]);
    low_ = std::min(low_, double(values[i])), high_ = std::max(high_, double(values[i]));
  }
  return finite;
}

void Histogram::count(const float* values, int64_t count) {
  bins_.resize(kBins, 0);
  const double scale = high_ > low_ ? kBins / (high_ - low_) : 0;
  for (int64_t i = 0; i < count; ++i)
    ++bins_[size_t(std::clamp((double(values[i]) - low_) * scale, 0.0, kBins - 1.0))];
}

onnx::ValueRange Histogram::range(RangeMethod method, double share) const {
  if (method == RangeMethod::min_max || bins_.empty() || !(high_ > low_)) return {low_, high_};
  return method == RangeMethod::percentile ? percentile(share) : entropy();
}

onnx::ValueRange Histogram::percentile(double share) const {
  const auto total = double(std::accumulate(bins_.begin(), bins_.end(), int64_t(0)));
  const double width = (high_ - low_) / kBins, outside = total * (1 - share) / 2;
  int first = 0, last = kBins - 1;
  for (double seen = double(bins_[0]); seen <= outside && first < last; seen += double(bins_[size_t(first)]))
    ++first;
  for (double seen = double(bins_.back()); seen <= outside && first < last;
       seen += double(bins_[size_t(last)]))
    --last;
  return {std::min(0.0, low_ + first * width), std::max(0.0, low_ + (last + 1) * width)};
}

/// Kullback-Leibler divergence of the values cut to the bins [first, last) from what 256 steps leave of them
/// (Migacz, 8-bit inference with TensorRT, 2017).
static double divergence(const std::vector<int64_t>& bins, int first, int last) {
  constexpr int kSteps = 256;
  const int count = last - first;
  std::vector<double> p(bins.begin() + first, bins.begin() + last), q(size_t(count), 0);
  for (int i = 0; i < int(bins.size()); ++i)  // what lies outside is met at the ends
    if (i < first || i >= last) p[i < first ? 0 : size_t(count) - 1] += double(bins[size_t(i)]);
  for (int step = 0; step < kSteps; ++step) {
    const int begin = step * count / kSteps, end = (step + 1) * count / kSteps;
    double sum = 0;
    int used = 0;
    for (int i = begin; i < end; ++i) {
      sum += double(bins[size_t(first + i)]);
      used += p[size_t(i)] > 0;
    }
    for (int i = begin; i < end; ++i)
      if (p[size_t(i)] > 0) q[size_t(i)] = sum / used;
  }
  const double all_p = std::accumulate(p.begin(), p.end(), 0.0),
               all_q = std::accumulate(q.begin(), q.end(), 0.0);
  if (all_p == 0 || all_q == 0) return std::numeric_limits<double>::infinity();
  constexpr double kLeast = 1e-9;  // where the values have a share and the bytes have none
  double out = 0;
  for (int i = 0; i < count; ++i)
    if (p[size_t(i)] > 0)
      out += p[size_t(i)] / all_p * std::log(p[size_t(i)] / all_p / std::max(q[size_t(i)] / all_q, kLeast));
  return out;
}

onnx::ValueRange Histogram::entropy() const {
  constexpr int kLeastBins = 256, kStride = 32;
  const double width = (high_ - low_) / kBins;
  const int zero = std::clamp(int(-low_ / width), 0, kBins - 1);
  // The zeros of a ReLU have a step of their own: they say nothing of where the others should be cut.
  std::vector<int64_t> bins = bins_;
  bins[size_t(zero)] =
      std::max(zero > 0 ? bins[size_t(zero) - 1] : 0, zero + 1 < kBins ? bins[size_t(zero) + 1] : 0);
  double best = std::numeric_limits<double>::infinity();
  int first = 0, last = kBins;
  // Ends draw in towards 0 by the same share of their distance.
  for (int keep = kLeastBins; keep <= kBins; keep += kStride) {
    const int begin = zero - int(int64_t(zero) * keep / kBins),
              end = std::max(begin + kLeastBins, zero + int(int64_t(kBins - zero) * keep / kBins));
    if (end > kBins) continue;
    if (const double d = divergence(bins, begin, end); d < best) best = d, first = begin, last = end;
  }
  return {std::min(0.0, low_ + first * width), std::max(0.0, low_ + last * width)};
}

}  // namespace tenon
