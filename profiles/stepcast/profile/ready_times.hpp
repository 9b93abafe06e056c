#pragma once
// Ready times: gradient_ready_times (profile.hpp) in memory that the caller provides (internal to the library); both
// are in profile.cpp.
#include <stepcast/profile/profile.hpp>

#include <memory_resource>
#include <vector>

namespace stepcast {

[[nodiscard]] std::pmr::vector<Seconds> gradient_ready_times(const Profile&, std::pmr::memory_resource*);

}  // namespace stepcast
