# What is installed: the program, the library with its public headers, and what finds it. An outside project says
#   find_package(stepcast 0.1 REQUIRED)                     target_link_libraries(... stepcast::stepcast)
#   find_package(stepcast 0.1 REQUIRED COMPONENTS shared)   target_link_libraries(... stepcast::stepcast_shared)
# or, without CMake, `pkg-config --cflags --libs stepcast`, with --static for libstepcast.a. Who links the static
# library needs the libraries under it as well; the shared one has all that it needs.
include(CMakePackageConfigHelpers)

# The interface of the library; all other headers are its own business.
set(stepcast_public_headers
  profiles/stepcast/anatomy/trace_summary.hpp
  profiles/stepcast/base/embedded.hpp
  profiles/stepcast/base/error.hpp
  profiles/stepcast/base/options.hpp
  profiles/stepcast/base/result_fields.hpp
  profiles/stepcast/base/text.hpp
  profiles/stepcast/base/units.hpp
  profiles/stepcast/documents/chakra_export.hpp
  profiles/stepcast/documents/documents.hpp
  profiles/stepcast/documents/inspection.hpp
  profiles/stepcast/documents/reading.hpp
  profiles/stepcast/encodings/source.hpp
  profiles/stepcast/extraction/profile_of.hpp
  profiles/stepcast/extraction/step_split.hpp
  profiles/stepcast/formats/shared/format.hpp
  profiles/stepcast/profile/blocks.hpp
  profiles/stepcast/profile/collective_role.hpp
  profiles/stepcast/profile/pass_cost.hpp
  profiles/stepcast/profile/profile.hpp
  profiles/stepcast/profile/training_memory.hpp
  profiles/stepcast/profile/profile_whatif.hpp
  profiles/stepcast/roofline/device.hpp
  profiles/stepcast/roofline/model_shape.hpp
  profiles/stepcast/roofline/named_models.hpp
  profiles/stepcast/roofline/operator_list.hpp
  profiles/stepcast/roofline/shipped_models.hpp
  profiles/stepcast/roofline/usual_batch.hpp
  profiles/stepcast/trace/execution_trace.hpp
  profiles/stepcast/trace/steps.hpp
  profiles/stepcast/trace/trace.hpp
  model/stepcast/calibration/traced_links.hpp
  model/stepcast/calibration/benchmark_logs.hpp
  model/stepcast/calibration/calibration.hpp
  model/stepcast/calibration/device_fit.hpp
  model/stepcast/calibration/device_of_trace.hpp
  model/stepcast/calibration/links_of_steps.hpp
  model/stepcast/calibration/measured_steps.hpp
  model/stepcast/cluster/cluster.hpp
  model/stepcast/cluster/cluster_description.hpp
  model/stepcast/cluster/collective.hpp
  model/stepcast/cluster/device_match.hpp
  model/stepcast/cluster/fit.hpp
  model/stepcast/cluster/links_of_trace.hpp
  model/stepcast/cluster/nccl_tuning.hpp
  model/stepcast/overlay/overlay.hpp
  model/stepcast/cluster/size_bands.hpp
  model/stepcast/launch/launch_settings.hpp
  model/stepcast/layout/layout.hpp
  model/stepcast/layout/process_group.hpp
  model/stepcast/layout/tensor_scheme.hpp
  model/stepcast/page/fit_svg.hpp
  model/stepcast/page/report_page.hpp
  model/stepcast/page/steps_svg.hpp
  model/stepcast/page/sweep_svg.hpp
  model/stepcast/page/validation_html.hpp
  model/stepcast/parallelism/layout_memory.hpp
  model/stepcast/parallelism/layout_prediction.hpp
  model/stepcast/pipeline/pipeline.hpp
  model/stepcast/placement/placement.hpp
  model/stepcast/plan/comm_plan.hpp
  model/stepcast/plan/fidelity.hpp
  model/stepcast/plan/modifier.hpp
  model/stepcast/plan/strategy.hpp
  model/stepcast/prediction/model.hpp
  model/stepcast/prediction/pacing_cycle.hpp
  model/stepcast/prediction/prediction.hpp
  model/stepcast/prediction/recommend.hpp
  model/stepcast/prediction/tuning.hpp
  model/stepcast/question/measured.hpp
  model/stepcast/question/question.hpp
  model/stepcast/question/whatif_rows.hpp
  model/stepcast/baseline/as_traced.hpp
  model/stepcast/baseline/explanation.hpp
  model/stepcast/baseline/gradient_exchange.hpp
  model/stepcast/baseline/recorded_job.hpp
  model/stepcast/baseline/recorded_timeline.hpp
  model/stepcast/replay/edits/task_edits.hpp
  model/stepcast/replay/pipelined/pipeline_replay.hpp
  model/stepcast/replay/replay.hpp
  model/stepcast/baseline/self_check.hpp
  model/stepcast/baseline/step_difference.hpp
  model/stepcast/replay/timeline.hpp
  model/stepcast/report/device_fit_report.hpp
  model/stepcast/report/explained_fit_report.hpp
  model/stepcast/report/links_fit_report.hpp
  model/stepcast/report/inspection_report.hpp
  model/stepcast/report/layout_report.hpp
  model/stepcast/report/placement_report.hpp
  model/stepcast/report/replay_edits_report.hpp
  model/stepcast/report/report.hpp
  model/stepcast/report/sweep_report.hpp
  model/stepcast/report/text/table.hpp
  model/stepcast/report/validation_report.hpp
  model/stepcast/report/whatif_report.hpp
  model/stepcast/schedule/critical_cycle.hpp
  model/stepcast/schedule/graph_whatif.hpp
  model/stepcast/schedule/lower.hpp
  model/stepcast/schedule/plan_flaw.hpp
  model/stepcast/schedule/schedule.hpp
  model/stepcast/schedule/lockstep.hpp
  model/stepcast/schedule/step_blocks.hpp
  model/stepcast/schedule/task_graph.hpp
  model/stepcast/schedule/task_name.hpp
  model/stepcast/run/whole_run.hpp
  model/stepcast/search/batches.hpp
  model/stepcast/search/frontier.hpp
  model/stepcast/search/layout_advice.hpp
  model/stepcast/search/layout_search.hpp
  model/stepcast/search/unit_configurations.hpp
  model/stepcast/search/unit_frontier.hpp
  model/stepcast/simulators/planned_job.hpp
  model/stepcast/simulators/planned_layout.hpp
  model/stepcast/sweep/axis.hpp
  model/stepcast/sweep/cross_overs.hpp
  model/stepcast/sweep/kept_range.hpp
  model/stepcast/stepcast.h
  model/stepcast/sweep/sweep.hpp
  model/stepcast/validation/cases.hpp
  model/stepcast/validation/statistics.hpp
  model/stepcast/validation/validation.hpp
  model/stepcast/validation/verdict.hpp
  model/stepcast/whatif/input_pipeline.hpp
  model/stepcast/whatif/whatif.hpp
  model/stepcast/workload/workload.hpp
  model/stepcast/cluster_description.hpp
  model/stepcast/documents.hpp
  model/stepcast/model.hpp
  model/stepcast/profile_of.hpp)
foreach(header IN LISTS stepcast_public_headers)
  string(REGEX REPLACE "^[a-z]+/(.*)/[^/]+$" "\\1" folder ${header})  # without model/ or profiles/, the roots of includes
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
endforeach()
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
