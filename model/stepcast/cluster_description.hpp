#pragma once
// Moved: this header forwards until version 0.3. Include <stepcast/cluster/cluster_description.hpp> instead.
#include <stepcast/cluster/cluster_description.hpp>
