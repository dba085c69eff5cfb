// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/container.h"
#include "base/define_type.h"

namespace tenon {
namespace {

// A base with two reserved slots for children, and three children: the third overflows.
struct Animal : Object {
  static constexpr std::string_view type_key = "test.Animal";
  static constexpr uint32_t child_slots = 2;
  int legs = 0;
};
struct Dog : Animal {
  using parent_type = Animal;
  static constexpr std::string_view type_key = "test.Dog";
};
struct Cat : Animal {
  using parent_type = Animal;
  static constexpr std::string_view type_key = "test.Cat";
};
struct Spider : Animal {
  using parent_type = Animal;
  static constexpr std::string_view type_key = "test.Spider";
};
struct Stone : Object {
  static constexpr std::string_view type_key = "test.Stone";
};

TEST(Object, ChildSlotsAndOverflow) {
  const TypeInfo* animal = type_info<Animal>();

  Ref<Object> d = make<Dog>(), c = make<Cat>(), s = make<Spider>(), stone = make<Stone>();
  // The first two lie inside the parent's range, the third outside; all three are found.
  EXPECT_GT(type_info<Dog>()->index, animal->index);
  EXPECT_LT(type_info<Dog>()->index, animal->end);
  EXPECT_LT(type_info<Cat>()->index, animal->end);
  EXPECT_GE(type_info<Spider>()->index, animal->end);
  EXPECT_TRUE(animal->overflow);
  for (const Ref<Object>& o : {d, c, s}) {
    EXPECT_TRUE(o.is<Animal>());
    EXPECT_TRUE(o.is<Object>());
    EXPECT_NE(o.as<Animal>(), nullptr);
  }
  EXPECT_FALSE(stone.is<Animal>());
  EXPECT_TRUE(s.is<Spider>());
  EXPECT_FALSE(s.is<Dog>());
  EXPECT_EQ(c.as<Dog>(), nullptr);
  EXPECT_FALSE(s.cast<Dog>());
  EXPECT_EQ(type_table::find("test.Cat"), type_info<Cat>());
  EXPECT_EQ(type_table::find("test.Nothing"), nullptr);
  EXPECT_EQ(type_table::find(type_info<Cat>()->index), type_info<Cat>());
}

TEST(Object, SameKeyTwiceIsOneType) {
  TypeInfo again;
  again.key = "test.Stone";
  EXPECT_EQ(type_table::add(again, 0), type_info<Stone>());
}

struct Counted : Object {
  static constexpr std::string_view type_key = "test.Counted";
  static inline std::atomic<int> alive{0};
  ObjectRef next;
  int value = 0;
  Counted() { ++alive; }
  Counted(const Counted& o) : Object(o), next(o.next), value(o.value) { ++alive; }
  ~Counted() { --alive; }
};

TEST(Ref, CountsAndMoves) {
  {
    auto a = make<Counted>();
    EXPECT_EQ(a.use_count(), 1u);
    Ref<Object> b = a;
    EXPECT_EQ(a.use_count(), 2u);
    Ref<Object> c = std::move(b);
    EXPECT_EQ(a.use_count(), 2u);
    EXPECT_FALSE(b);
    c = nullptr;
    EXPECT_EQ(a.use_count(), 1u);
    Any any = a;
    EXPECT_EQ(any.as<Ref<Counted>>().get(), a.get());
  }
  EXPECT_EQ(Counted::alive.load(), 0);
}

TEST(Ref, EditCopiesOnlyWhenShared) {
  auto a = make<Counted>();
  a.edit()->value = 1;
  const Counted* before = a.get();
  a.edit()->value = 2;
  EXPECT_EQ(a.get(), before);
  auto b = a;
  b.edit()->value = 3;
  EXPECT_NE(b.get(), before);
  EXPECT_EQ(a->value, 2);
  EXPECT_EQ(b->value, 3);
  EXPECT_TRUE(b.is<Counted>());
}

template <class T>
concept ChangesInPlace = requires(Ref<T> r) { r.mut(); };
template <class T>
concept EditsWhatGoes = requires { make<T>().edit(); };
// What has no fields may be shared state; a node changes through `edit()`, and not a copy that nobody keeps.
static_assert(ChangesInPlace<Counted> && !ChangesInPlace<Object> && !EditsWhatGoes<Counted>);

TEST(Ref, AChainOfAMillionIsDestroyedWithoutRecursion) {
  {
    Ref<Counted> head;
    for (int i = 0; i < 1'000'000; ++i) {
      auto next = make<Counted>();
      next.mut()->next = head;
      head = next;
    }
    EXPECT_EQ(Counted::alive.load(), 1'000'000);
  }
  EXPECT_EQ(Counted::alive.load(), 0);
}

// ---- Reflection

struct Leaf : Object {
  static constexpr std::string_view type_key = "test.Leaf";
  int64_t number = 0;
  std::string text;
  DataType dtype;
  static void fields(auto& f) {
    f.add("number", &Leaf::number, "a number").add("text", &Leaf::text).ignored("dtype", &Leaf::dtype);
  }
};
struct Pair : Object {
  static constexpr std::string_view type_key = "test.Pair";
  Ref<Leaf> left;
  Array<Ref<Leaf>> rest;
  static void fields(auto& f) { f.add("left", &Pair::left).def("rest", &Pair::rest); }
};

// Sanitizers reserve more addresses than the limit leaves.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENON_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENON_SANITIZED 1
#endif
#endif
#ifndef TENON_SANITIZED
TEST(Ref, ManyAreDestroyedWithoutMemory) {
  const pid_t child = fork();
  if (child == 0) {
    Array<Any> many;
    for (int i = 0; i < 1000000; ++i) many.push_back(Any(make<Dog>()));
    const rlimit little{size_t(16) << 20, size_t(16) << 20};
    setrlimit(RLIMIT_AS, &little);
    for (size_t bytes = 1 << 20; bytes >= 16; bytes /= 2)
      while (std::malloc(bytes)) continue;
    many = Array<Any>();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}
#endif

TEST(Reflect, FieldsAreReadAndWrittenByName) {
  auto leaf = make<Leaf>(int64_t(7), "seven", f32);
  const TypeInfo* info = type_of(leaf);
  EXPECT_EQ(type_key_of(leaf), "test.Leaf");
  EXPECT_EQ(type_key_of(ObjectRef()), "none");
  ASSERT_EQ(info->fields.size(), 3u);
  EXPECT_EQ(info->fields[0].name, "number");
  EXPECT_EQ(info->fields[0].doc, "a number");
  EXPECT_EQ(info->fields[2].role, FieldRole::ignored);
  EXPECT_EQ(info->fields[0].get(leaf.get()).as<int64_t>(), 7);
  EXPECT_EQ(info->fields[1].get(leaf.get()).as<std::string>(), "seven");
  EXPECT_EQ(info->fields[2].get(leaf.get()).as<DataType>(), f32);
  info->fields[0].set(leaf.edit(), Any(8));
  EXPECT_EQ(leaf->number, 8);
  EXPECT_THROW(info->fields[0].set(leaf.edit(), Any("eight")), InternalError);
  Object* fresh = info->create();
  EXPECT_EQ(static_cast<Leaf*>(fresh)->number, 0);
  EXPECT_EQ(fresh->type_index, info->index);
  Ref<Object> drop(fresh);
}

TEST(Reflect, ChildrenAreSeenInPlace) {
  auto leaf = make<Leaf>(int64_t(1), "", f32);
  auto pair = make<Pair>(leaf, Array<Ref<Leaf>>{leaf, leaf});
  const auto fields = type_of(pair)->fields;
  EXPECT_TRUE(fields[0].is_ref);
  EXPECT_EQ(fields[1].role, FieldRole::def);
  const uint32_t count = leaf.use_count();
  EXPECT_EQ(fields[0].ref(pair.get())->get(), leaf.get());
  EXPECT_EQ(leaf.use_count(), count);
  EXPECT_TRUE(fields[1].ref(pair.get())->is<ArrayObj>());
}

// ---- Many threads

TEST(Threads, CountsTypesAndCopiesUnderEightThreads) {
  auto shared = make<Counted>();
  Array<Ref<Counted>> list;
  for (int i = 0; i < 100; ++i) list.push_back(make<Counted>());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        Ref<Counted> mine = shared;
        mine.edit()->value = t;  // shared, so always a copy
        if (mine.get() == shared.get()) ++wrong;
        Array<Ref<Counted>> copy = list;
        copy.set(size_t(i % 100), mine);
        if (copy[size_t(i % 100)]->value != t || list[size_t(i % 100)].get() == mine.get()) ++wrong;
        if (type_table::find("test.Counted") != type_info<Counted>()) ++wrong;
        Any a = copy;
        Any b = std::move(a);
        if (!b.as<Array<Ref<Counted>>>().size()) ++wrong;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(shared->value, 0);
  list = {};
  EXPECT_EQ(Counted::alive.load(), 1);
}

}  // namespace
}  // namespace tenon

template struct tenon::DefineTypes<tenon::Leaf, tenon::Pair>;
