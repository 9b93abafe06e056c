# stepcast_family(<family> <folder>): an open family is a folder with one <member>.cpp each and a list <family>.inc with
# one STEPCAST_MEMBER(<member>) line each, which the compiler includes and this function reads.
function(stepcast_family family folder)
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${family}.inc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} lines REGEX "^STEPCAST_MEMBER")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "STEPCAST_MEMBER\\(([a-z0-9_]+)\\).*" "\\1" member "${line}")
    list(APPEND stepcast_family_sources ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/${member}.cpp)
  endforeach()
  set(stepcast_family_sources ${stepcast_family_sources} PARENT_SCOPE)
endfunction()
