# SPDX-License-Identifier: Apache-2.0
target_link_libraries(test_pipeline PRIVATE tenon_graph_executor)
# Its programs call C functions of the process by name.
set_target_properties(test_pipeline PROPERTIES ENABLE_EXPORTS ON)
