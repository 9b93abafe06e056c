# stepcast_embed(<function> <folder> [<pattern>...]): compiles the files of a folder that match a pattern (*.json if
# there is none) into the program, as a function
#   std::span<const stepcast::EmbeddedFile> stepcast::<function>();   (profiles/stepcast/base/embedded.hpp)
function(stepcast_embed function folder)
  set(patterns ${ARGN})
  if(NOT patterns)
    set(patterns *.json)
  endif()
  list(TRANSFORM patterns PREPEND ${folder}/)
  file(GLOB files CONFIGURE_DEPENDS ${patterns})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/${function}.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DFUNCTION=${function} "-DFILES=${files}" -DOUT=${out}
            -P ${CMAKE_CURRENT_SOURCE_DIR}/cmake/write_embedded.cmake
    DEPENDS ${files} ${CMAKE_CURRENT_SOURCE_DIR}/cmake/write_embedded.cmake VERBATIM)
  set(stepcast_embedded_sources ${stepcast_embedded_sources} ${out} PARENT_SCOPE)
endfunction()
