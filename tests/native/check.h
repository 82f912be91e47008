// A check that stays in release builds and says what it compared.
#ifndef C7X_TESTS_CHECK_H
#define C7X_TESTS_CHECK_H

#include <cstdio>
#include <cstdlib>
#include <iostream>

#define CHECK(condition)                                                                  \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << " is false\n";    \
      std::exit(1);                                                                       \
    }                                                                                     \
  } while (false)

#define CHECK_EQ(left, right)                                                                             \
  do {                                                                                                    \
    const auto check_left = (left);                                                                       \
    const auto check_right = (right);                                                                     \
    if (!(check_left == check_right)) {                                                                   \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << #left << " is " << check_left << ", expected "  \
                << check_right << "\n";                                                                   \
      std::exit(1);                                                                                       \
    }                                                                                                     \
  } while (false)

#endif
