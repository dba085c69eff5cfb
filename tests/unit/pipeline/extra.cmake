# SPDX-License-Identifier: Apache-2.0
target_link_libraries(test_pipeline PRIVATE tenon_graph_executor)
