#pragma once
// Moved: this header forwards until version 0.3. Include <stepcast/documents/documents.hpp> instead.
#include <stepcast/documents/documents.hpp>
