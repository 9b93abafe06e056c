#pragma once
// Moved: this header forwards until version 0.3. Include <stepcast/extraction/profile_of.hpp> instead.
#include <stepcast/extraction/profile_of.hpp>
