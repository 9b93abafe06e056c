# stepcast_unity(<target> <root>): with STEPCAST_UNITY the sources of a target below <root> are compiled a folder at a time,
# because most of a file's time goes into headers and templates that its neighbours share. Without it every file is
# compiled by itself, which is what shows a missing include, and what is quicker while one file is being changed.
function(stepcast_unity target root)
  if(NOT STEPCAST_UNITY)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  target_compile_options(${target} PRIVATE
    # Neighbours in a room may use the same names in functions; whole files are warned of without unity.
    $<$<CXX_COMPILER_ID:GNU,Clang>:-Wno-shadow> $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(IS_PREFIX root ${path} NORMALIZE inside)
    if(inside)
      cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${root})
      cmake_path(GET path PARENT_PATH folder)
      string(MAKE_C_IDENTIFIER "room_${folder}" group)
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
    endif()
  endforeach()
endfunction()
