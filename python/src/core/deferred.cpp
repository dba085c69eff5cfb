// SPDX-License-Identifier: Apache-2.0
// C++ may drop the last reference to something of Python in any thread, while it holds locks of its own, or
// when the interpreter has ended. So a drop never waits for the interpreter lock: it joins a list that the
// next one who holds the lock empties. After the end of the interpreter what remains is leaked.
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
};
List& list() {
  static List* l = new List;  // outlives the static objects whose destructors may come here
  return *l;
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
  if (l.ended) return;
  std::lock_guard lock(l.mutex);
  l.items.push_back({f, argument});
  if (!l.waiting.exchange(true)) Py_AddPendingCall(run_pending, nullptr);
}

void drop_later(void* python_object) {
  drop_later([](void* o) { Py_DECREF(static_cast<PyObject*>(o)); }, python_object);
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
    if (items.empty()) return;
    // What runs here may be called while an exception is on its way.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    for (const Deferred& d : items) d.f(d.argument);
    PyErr_Restore(type, value, traceback);
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
