// SPDX-License-Identifier: Apache-2.0
// tenon._core: Python's objects over tenon/ffi.h, for the stable ABI of Python 3.11 and later.
#pragma once
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <tenon/ffi.h>
#include <unistd.h>

namespace tenon::python {

/// A wrapper of one C++ object: while it lives, the object has no other.
struct Wrapper {
  PyObject ob_base;
  TenonObject* object;  ///< null until it is made by a constructor of Python
  PyObject* weak;       ///< list of weak references
};

/// What the package sets once (`_core.setup`), and the types of this module.
struct State {
  PyTypeObject* object = nullptr;
  PyTypeObject* array = nullptr;
  PyTypeObject* map = nullptr;
  PyTypeObject* function = nullptr;
  PyTypeObject* tensor = nullptr;
  PyTypeObject* field = nullptr;
  PyObject* dtype = nullptr;       ///< tenon.dtype, a kind of str
  PyObject* make_class = nullptr;  ///< type index → class
  PyObject* make_error = nullptr;  ///< (kind, code, message, location, hint, text, traceback) → exception
  PyObject* equal = nullptr;       ///< (a, b) → bool
  PyObject* hash = nullptr;        ///< object → int
  PyObject* repr = nullptr;        ///< object → str
  PyObject* bind = nullptr;        ///< (function, arguments, keywords) → tuple of arguments
  PyObject* to_tensor = nullptr;   ///< object → tensor or None, for what has neither buffer nor DLPack
};
extern State state;

// object.cpp
bool add_object_types(PyObject* module);
/// The wrapper of an object; takes over the reference. Null: an exception is set.
PyObject* wrap(TenonObject* object);
/// The class of a type index (borrowed), made when it is needed first.
PyTypeObject* class_of(uint32_t index);
void set_class(uint32_t index, PyObject* type);
inline bool is_wrapper(PyObject* o) { return PyObject_TypeCheck(o, state.object); }
inline TenonObject* object_of(PyObject* o) { return reinterpret_cast<Wrapper*>(o)->object; }
/// Object of a wrapper; TypeError when it has none yet.
TenonObject* made_object(PyObject* self);

// container.cpp, function.cpp, tensor.cpp
bool add_container_types(PyObject* module);
bool add_function_type(PyObject* module);
bool add_tensor_type(PyObject* module);
/// Whether this is a tensor of somebody else: 1 and a view of it, 0 no, -1 an exception is set.
int tensor_from(PyObject* value, TenonAny* result);
/// The same for an array of NumPy that can be used as it is: 1 or 0.
int numpy_array_from(PyObject* value, TenonAny* result);
/// Fields of an array of NumPy that can be used as it is, borrowed; false for all else.
bool numpy_view(PyObject* value, DLTensor* view);
/// First element of what is known to be an array of NumPy.
void* numpy_data(PyObject* array);
/// A callable as a function.
bool function_from(PyObject* callable, TenonAny* result);

// convert.cpp
/// A value of Python for C++, for the caller to release. False: an exception is set.
bool to_any(PyObject* value, TenonAny* result);
/// A value of C++ for Python; takes over the reference.
PyObject* from_any(TenonAny value);
/// The same for a borrowed value.
PyObject* from_borrowed(const TenonAny& value);
/// A value of another language in an object that C++ only hands on.
bool foreign(PyObject* value, TenonAny* result);

// error.cpp
/// Sets the exception for an error object, which it releases. `name` (may be null): the function that failed.
void raise(TenonAny* error, const char* name = nullptr);
/// The same by `_make_error` of an object's class. Gives null.
PyObject* raise_for(PyObject* self, TenonAny* error);
/// The current exception as an error object; clears it.
TenonStatus take_exception(TenonAny* error);

// session.cpp
bool add_session_types(PyObject* module);

// deferred.cpp
/// Gives a reference back from any thread, with the interpreter lock or without, at any time.
void drop_later(void* python_object);
void drop_later(void (*f)(void*), void* argument);
/// Runs what waits; with the lock held. Cheap when nothing does.
void run_deferred();
/// Round releases of C++ objects, with the lock held: what they drop of Python goes at the end of the scope.
class Releasing {
 public:
  Releasing();
  ~Releasing();
  Releasing(const Releasing&) = delete;

 private:
  bool mine_;
};
bool interpreter_ended();
bool add_deferred(PyObject* module);

/// Takes the interpreter lock by `take`. The interpreter ends threads that ask for it while the process ends,
/// by unwinding their frames, which frames of C++ do not survive: such a thread waits here for the end.
template <class F>
auto take_lock(F take) {
  try {
    return take();
  } catch (...) {
    for (;;) pause();
  }
}

/// The interpreter lock released for a call that may take long.
class Unlocked {
 public:
  Unlocked() : saved_(PyEval_SaveThread()) {}
  ~Unlocked() {
    take_lock([this] { PyEval_RestoreThread(saved_); });
  }
  Unlocked(const Unlocked&) = delete;

 private:
  PyThreadState* saved_;
};

/// Owned values of a call; released at its end.
class Values {
 public:
  explicit Values(Py_ssize_t capacity) : list_(small_) {
    if (capacity > kSmall) list_ = static_cast<TenonAny*>(PyMem_Malloc(size_t(capacity) * sizeof(TenonAny)));
  }
  ~Values() {
    if (objects_) release();
    if (list_ != small_) PyMem_Free(list_);
  }
  void release() {
    const Releasing releasing;
    for (Py_ssize_t i = 0; i < size_; ++i)
      if (list_[i].tag >= TENON_FIRST_OBJECT) tenon_ffi_release(list_[i].v.object);
  }
  Values(const Values&) = delete;
  /// False: an exception is set.
  bool add(PyObject* value) {
    if (!list_) return PyErr_NoMemory(), false;
    if (!to_any(value, list_ + size_)) return false;
    objects_ = objects_ || list_[size_].tag >= TENON_FIRST_OBJECT;
    ++size_;
    return true;
  }
  const TenonAny* data() const { return list_; }
  int32_t size() const { return int32_t(size_); }

 private:
  static constexpr Py_ssize_t kSmall = 8;
  TenonAny small_[kSmall];
  TenonAny* list_;
  Py_ssize_t size_ = 0;
  bool objects_ = false;
};

/// Puts an owned reference into a variable and gives back what was there.
inline void assign(PyObject*& variable, PyObject* value) {
  PyObject* old = variable;
  variable = value;
  Py_XDECREF(old);
}

inline const char* utf8(PyObject* text, Py_ssize_t* size = nullptr) {
  return PyUnicode_AsUTF8AndSize(text, size);
}

}  // namespace tenon::python
