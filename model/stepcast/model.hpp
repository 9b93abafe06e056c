#pragma once
// Moved: this header forwards until version 0.3. Include <stepcast/prediction/model.hpp> instead.
#include <stepcast/prediction/model.hpp>
