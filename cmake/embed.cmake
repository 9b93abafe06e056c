# stepcast_embed(<function> <folder> [<pattern>...] [SCRIPTS <file>...]): compiles the files of a folder that match a
# pattern (*.json if there is none) into the program, as a function
#   std::span<const stepcast::EmbeddedFile> stepcast::<function>();   (profiles/stepcast/base/embedded.hpp)
# and the scripts, in their order, as one text "script" with its hash as "script_hash" (write_embedded.cmake).
function(stepcast_embed function folder)
  cmake_parse_arguments(embed "" "" SCRIPTS ${ARGN})
  set(patterns ${embed_UNPARSED_ARGUMENTS})
  set(scripts ${embed_SCRIPTS})
  list(TRANSFORM scripts PREPEND ${folder}/)
  if(NOT patterns)
    set(patterns *.json)
  endif()
  list(TRANSFORM patterns PREPEND ${folder}/)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} "-DFILES=${files}" "-DSCRIPTS=${scripts}" -DOUT=${out}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${files} ${scripts} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
  set(stepcast_embedded_sources ${stepcast_embedded_sources} ${out} PARENT_SCOPE)
endfunction()
