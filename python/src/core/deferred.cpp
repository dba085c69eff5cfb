// SPDX-License-Identifier: Apache-2.0
// C++ may drop the last reference to something of Python in any thread, while it holds locks of its own, or
// when the interpreter has ended. So a drop never waits for the interpreter lock: it joins a list that the
// next one who holds the lock empties. What a thread drops in a `Releasing` scope, with the lock held, joins
// a list without a lock, which the end of the scope empties. After the end of the interpreter what remains is
// leaked.
#include <pthread.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "core.h"

namespace tenon::python {
namespace {

struct Deferred {
  void (*f)(void*);
  void* argument;
};
struct List {
  std::mutex mutex;
  std::vector<Deferred> items;
  std::atomic<bool> waiting{false}, ended{false};
  /// The thread whose scope it is, 0 for none; changed with the interpreter lock held.
  std::atomic<pthread_t> releasing{0};
  std::vector<Deferred> own;  ///< of that thread alone
};
List& list() {
  static List* l = new List;  // outlives the static objects whose destructors may come here
  return *l;
}

void run(const std::vector<Deferred>& items) {
  for (const Deferred& d : items) d.f(d.argument);
}

int run_pending(void*) {
  run_deferred();
  return 0;
}

PyObject* end(PyObject*, PyObject*) {
  run_deferred();
  list().ended = true;
  Py_RETURN_NONE;
}

}  // namespace

void drop_later(void (*f)(void*), void* argument) {
  List& l = list();
  if (l.releasing.load(std::memory_order_relaxed) == pthread_self()) return l.own.push_back({f, argument});
  if (l.ended) return;
  std::lock_guard lock(l.mutex);
  l.items.push_back({f, argument});
  if (!l.waiting.exchange(true)) Py_AddPendingCall(run_pending, nullptr);
}

void drop_later(void* python_object) {
  drop_later([](void* o) { Py_DECREF(static_cast<PyObject*>(o)); }, python_object);
}

Releasing::Releasing() : mine_(list().releasing.load(std::memory_order_relaxed) == 0) {
  if (mine_) list().releasing.store(pthread_self(), std::memory_order_relaxed);
}

Releasing::~Releasing() {
  // An outer scope of this thread has the same list; while another thread has it, this one uses the other
  // list.
  if (mine_) {
    List& l = list();
    l.releasing.store(0, std::memory_order_relaxed);
    if (l.own.size() == 1) {
      const Deferred only = l.own[0];
      l.own.clear();  // its memory is kept
      only.f(only.argument);
    } else if (!l.own.empty()) {
      std::vector<Deferred> items;
      items.swap(l.own);
      run(items);
    }
  }
  run_deferred();
}

void run_deferred() {
  List& l = list();
  while (l.waiting.load(std::memory_order_relaxed)) {
    std::vector<Deferred> items;
    {
      std::lock_guard lock(l.mutex);
      items.swap(l.items);
      l.waiting = false;
    }
    run(items);
  }
}

bool interpreter_ended() { return list().ended; }

bool add_deferred(PyObject*) {
  static PyMethodDef method = {"_end", end, METH_NOARGS, nullptr};
  PyObject* atexit = PyImport_ImportModule("atexit");
  PyObject* f = PyCFunction_New(&method, nullptr);
  PyObject* done = atexit && f ? PyObject_CallMethod(atexit, "register", "O", f) : nullptr;
  Py_XDECREF(atexit);
  Py_XDECREF(f);
  Py_XDECREF(done);
  return done != nullptr;
}

}  // namespace tenon::python
