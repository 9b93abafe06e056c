# What is installed: the program, the library with its public headers, and what finds it. An outside project says
#   find_package(stepcast 0.1 REQUIRED)                     target_link_libraries(... stepcast::stepcast)
#   find_package(stepcast 0.1 REQUIRED COMPONENTS shared)   target_link_libraries(... stepcast::stepcast_shared)
# or, without CMake, `pkg-config --cflags --libs stepcast`, with --static for libstepcast.a. Who links the static
# library needs the libraries under it as well; the shared one has all that it needs.
include(CMakePackageConfigHelpers)

# The interface of the library; all other headers are its own business.
set(stepcast_public_headers
  profiles/stepcast/chakra_export.hpp profiles/stepcast/trace_summary.hpp model/stepcast/inspection.hpp
  profiles/stepcast/embedded.hpp profiles/stepcast/error.hpp profiles/stepcast/execution_trace.hpp
  profiles/stepcast/format.hpp profiles/stepcast/profile.hpp
  profiles/stepcast/profile_of.hpp profiles/stepcast/profile_whatif.hpp profiles/stepcast/reading.hpp
  profiles/stepcast/shipped_models.hpp profiles/stepcast/source.hpp profiles/stepcast/steps.hpp profiles/stepcast/text.hpp
  profiles/stepcast/trace.hpp profiles/stepcast/units.hpp
  model/stepcast/cluster.hpp model/stepcast/collective.hpp model/stepcast/comm_plan.hpp model/stepcast/fit.hpp
  model/stepcast/input_pipeline.hpp model/stepcast/modifier.hpp model/stepcast/options.hpp
  model/stepcast/lower.hpp model/stepcast/plan_flaw.hpp model/stepcast/task_name.hpp model/stepcast/prediction.hpp model/stepcast/recommend.hpp model/stepcast/replay.hpp
  model/stepcast/report.hpp model/stepcast/schedule.hpp model/stepcast/strategy.hpp model/stepcast/task_graph.hpp
  model/stepcast/text_table.hpp model/stepcast/tuning.hpp
  model/stepcast/validation.hpp model/stepcast/validation_report.hpp
  model/stepcast/graph_whatif.hpp model/stepcast/whatif.hpp model/stepcast/whatif_report.hpp
  profiles/stepcast/device.hpp profiles/stepcast/model_shape.hpp profiles/stepcast/profile_blocks.hpp
  model/stepcast/device_fit.hpp model/stepcast/frontier.hpp model/stepcast/launch_settings.hpp
  model/stepcast/layout.hpp model/stepcast/layout_advice.hpp model/stepcast/layout_report.hpp
  model/stepcast/layout_memory.hpp model/stepcast/layout_prediction.hpp
  model/stepcast/layout_search.hpp model/stepcast/pipeline.hpp model/stepcast/pipeline_replay.hpp
  model/stepcast/placement.hpp model/stepcast/placement_report.hpp
  model/stepcast/process_group.hpp model/stepcast/tensor_scheme.hpp
  model/stepcast/unit_configurations.hpp model/stepcast/workload.hpp
  model/stepcast/unit_frontier.hpp profiles/stepcast/documents.hpp model/stepcast/self_check.hpp
  model/stepcast/cluster_description.hpp model/stepcast/device_match.hpp
  model/stepcast/model.hpp model/stepcast/sweep.hpp model/stepcast/report_page.hpp
  model/stepcast/stepcast.h)
install(FILES ${stepcast_public_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/stepcast)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/stepcast)
install(TARGETS stepcast EXPORT stepcast-static ARCHIVE)
install(EXPORT stepcast-static NAMESPACE stepcast:: DESTINATION ${package_folder})
if(STEPCAST_SHARED)
  install(TARGETS stepcast_shared EXPORT stepcast-shared LIBRARY)
  install(EXPORT stepcast-shared NAMESPACE stepcast:: DESTINATION ${package_folder})
endif()
configure_package_config_file(cmake/stepcast-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/stepcast-config.cmake
                              INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/stepcast-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stepcast-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/stepcast-config-version.cmake DESTINATION ${package_folder})

# pkg-config: paths are relative to the file, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE pc_libdir)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE pc_includedir)
# A C program that links the archive needs the C++ runtime by name.
set(pc_runtime ${CMAKE_CXX_IMPLICIT_LINK_LIBRARIES})
list(FILTER pc_runtime INCLUDE REGEX "^(stdc\\+\\+|c\\+\\+|m)$")
list(REMOVE_DUPLICATES pc_runtime)
list(TRANSFORM pc_runtime PREPEND "-l")
list(JOIN pc_runtime " " pc_runtime)
configure_file(cmake/stepcast.pc.in ${CMAKE_CURRENT_BINARY_DIR}/stepcast.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/stepcast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
