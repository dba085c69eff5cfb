// SPDX-License-Identifier: Apache-2.0
#include "interpret/team.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <exception>
#include <memory>
#include <vector>

#include "base/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TENON_ASAN_FIBERS 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TENON_ASAN_FIBERS 1
#endif
#ifdef TENON_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

namespace tenon::interpret_detail {
namespace {

constexpr size_t kStack = size_t(4) << 20;  // address space; pages appear when they are touched
struct Cancelled {};

}  // namespace

/// What the sanitizer wants to hear when the stack changes.
struct FiberSwitch {
  void* fake = nullptr;
  const void* bottom = nullptr;
  size_t size = 0;
  void leave(bool for_good, const void* to, size_t to_size) {
#ifdef TENON_ASAN_FIBERS
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, to, to_size);
#else
    (void)for_good, (void)to, (void)to_size;
#endif
  }
  void arrive(FiberSwitch* from) {
#ifdef TENON_ASAN_FIBERS
    __sanitizer_finish_switch_fiber(fake, from ? &from->bottom : nullptr, from ? &from->size : nullptr);
#else
    (void)from;
#endif
  }
};

struct Team::Fiber {
  Team* team = nullptr;
  Fiber* outer = nullptr;
  const FunctionRef<void(int64_t)>* body = nullptr;
  int64_t index = 0;
  void* stack = MAP_FAILED;
  ucontext_t self{}, caller{};
  FiberSwitch self_switch, caller_switch;
  const void* waits = nullptr;
  bool started = false, done = false, cancelled = false;
  std::exception_ptr error;
  ~Fiber() {
    if (stack != MAP_FAILED) munmap(stack, kStack);
  }
};

Team::Team() = default;
Team::~Team() = default;

void Team::start(unsigned high, unsigned low) {
  auto* f = reinterpret_cast<Fiber*>((uintptr_t(high) << 32) | uintptr_t(low));
  f->self_switch.arrive(&f->caller_switch);
  try {
    (*f->body)(f->index);
  } catch (const Cancelled&) {
  } catch (...) {
    f->error = std::current_exception();
  }
  f->done = true;
  f->self_switch.leave(true, f->caller_switch.bottom, f->caller_switch.size);
  swapcontext(&f->self, &f->caller);
}

void Team::resume(Fiber& f) {
  f.outer = current_;
  current_ = &f;
  f.waits = nullptr;
  if (!f.started) {
    f.started = true;
    f.stack =
        mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f.stack == MAP_FAILED) {
      current_ = f.outer;
      throw Error(ErrorKind::limit, "T0401", "no memory for the stacks of simulated threads");
    }
    getcontext(&f.self);
    f.self.uc_stack.ss_sp = f.stack;
    f.self.uc_stack.ss_size = kStack;
    f.self.uc_link = nullptr;
    const auto p = reinterpret_cast<uintptr_t>(&f);
    makecontext(&f.self, reinterpret_cast<void (*)()>(&Team::start), 2, unsigned(p >> 32), unsigned(p));
  }
  f.caller_switch.leave(false, f.stack, kStack);
  swapcontext(&f.caller, &f.self);
  f.caller_switch.arrive(nullptr);
  current_ = f.outer;
}

void Team::yield(const void* site) {
  Fiber& f = *current_;
  f.waits = site;
  f.self_switch.leave(false, f.caller_switch.bottom, f.caller_switch.size);
  swapcontext(&f.self, &f.caller);
  f.self_switch.arrive(&f.caller_switch);
  if (f.cancelled) throw Cancelled();
}

void Team::barrier(const void* site) {
  if (current_) yield(site);
}

void Team::run(int64_t n, bool reverse, const Hooks& hooks) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (int64_t k = 0; k < n; ++k) {
    fibers.push_back(std::make_unique<Fiber>());
    fibers.back()->team = this;
    fibers.back()->body = &hooks.body;
    fibers.back()->index = k;
  }
  std::exception_ptr error;
  // Whoever still waits leaves its body by an exception, so that what it holds is given back.
  auto leave_all = [&] {
    for (auto& f : fibers) {
      if (!f->started || f->done) continue;
      f->cancelled = true;
      hooks.enter(f->index);
      resume(*f);
      hooks.leave(f->index);
    }
  };
  for (;;) {
    const void* site = nullptr;
    int64_t waiting = 0, ended = 0;
    bool different = false;
    for (int64_t i = 0; i < n && !error; ++i) {
      Fiber& f = *fibers[size_t(reverse ? n - 1 - i : i)];
      if (!f.done) {
        hooks.enter(f.index);
        try {
          resume(f);
        } catch (...) {
          error = std::current_exception();
        }
        hooks.leave(f.index);
        if (f.error) error = f.error;
      }
      if (f.done) {
        ++ended;
      } else if (!error) {
        different = different || (waiting && site != f.waits);
        site = f.waits;
        ++waiting;
      }
    }
    if (!error && waiting && (ended || different))
      error = std::make_exception_ptr(Error(
          ErrorKind::model, "T0361", "some threads of a block wait at a barrier that others do not reach"));
    if (error) {
      leave_all();
      std::rethrow_exception(error);
    }
    if (!waiting) return;
    try {
      if (current_) yield(site);  // this body's own team waits as a whole
    } catch (...) {
      leave_all();
      throw;
    }
  }
}

}  // namespace tenon::interpret_detail
