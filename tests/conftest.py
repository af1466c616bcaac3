"""Settings for all tests."""

import compileall
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Before the package is imported. Some tests compare bits between calls, which kernels that take over in between would
# change by a rounding.
# What kernels compute outside `wg.jit` is tested in execute/native/test_eager_kernels.py.
os.environ.setdefault("WENGERT_EAGER_KERNELS", "0")

# A worker's share of the machine is one core: threads of OpenBLAS beside it wait busily for the others' processor.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Compiled code is kept where only this run's processes look (workers inherit the variable): nothing of the user's is
# read, nothing is left behind.
_OWN = "WENGERT_CACHE_DIR" not in os.environ
os.environ.setdefault("WENGERT_CACHE_DIR", os.path.join(tempfile.gettempdir(), f"wengert-tests-{os.getpid()}"))
# And so are documents of recorded runs, by `recorded` of the helpers.
_OWN_DOCUMENTS = "WENGERT_TESTS_DOCUMENTS" not in os.environ
if _OWN_DOCUMENTS:
    os.environ["WENGERT_TESTS_DOCUMENTS"] = tempfile.mkdtemp(prefix="wengert-documents-")

# Ranks of a mesh are devices, where XLA is the engine: JAX makes as many of the processor when it begins.
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

# A shell's background jobs ignore Ctrl-C, which some tests are about, and what they start would not end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import wengert as wg  # noqa: E402
from wengert.core.ops import kernels  # noqa: E402

# The same cases in every run: nothing passes by chance. `--hypothesis-profile=random` draws others.
# Nor does anything fail because the machine is busy.
AT_LEISURE = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **AT_LEISURE)
settings.register_profile("random", derandomize=False, **AT_LEISURE)
settings.load_profile("same")

# What a program can set for the whole process, as it is at first.
SETTINGS = kernels.kernels, wg.get_num_threads(), wg.get_default_dtype()


# What to run where all of it would take too long, and the question is whether it works there at all: after a change
# anywhere, with other versions of what Wengert needs, on another machine. By file: its tests, all where none is named.
# Of a test with many cases it is the first, or the cases that are named. `pytest -m fast` takes less than two minutes
# on one core, and calls functions of every module (project/test_fast.py).
FAST: dict[str, tuple[str, ...]] = {
    "cli/test_launch": (),
    "cli/test_programs": ("test_a_graph_becomes_a_program",),
    "cli/test_weights": (),
    "core/test_array_subclasses": (),
    "core/test_deprecation": (),
    "core/test_errors": ("test_data_files",),
    "core/test_graph": ("test_pickle_and_copy",),
    "core/test_mutation": (),
    "core/test_numbers": ("test_states_that_are_functions_of_numbers_take_the_dtype_of_the_equation",),
    "core/test_taken": (),
    "deploy/test_export": (
        "test_a_model_in_c_and_by_load[False-6]",
        "test_indices_out_of_range_are_numbers",
        "test_what_is_refused_is_named_and_nothing_is_written[a decision]",
    ),
    "deploy/test_targets": ("test_pages_and_modules_hold_all_that_they_need",),
    "distribute/test_agreement": ("test_what_is_no_mesh_and_no_placement", "test_checksums_see_one_bit_and_the_order"),
    "distribute/test_checkpoints": ("test_all_ranks_write_a_share_of_what_all_have", "test_what_is_refused"),
    "distribute/test_collectives": (),
    "distribute/test_crossings": ("test_losses_are_those_of_one_process[batches-data pipeline]",),
    "distribute/test_partition": (
        "test_parts",
        "test_ranks_that_run_different_programs_are_told",
    ),
    "distribute/test_pipeline": (
        "test_bubbles_and_what_is_kept_are_those_of_the_schedule[1f1b-1-4-2]",
        "test_functions",
        "test_stages_are_cut_where_it_costs_least",
        "test_what_is_refused",
    ),
    "distribute/test_predict": (),
    "distribute/test_spmd": (),
    "distribute/test_training": ("test_what_each_plan_moves",),
    "distributions/mcmc/test_diagnostics": ("test_where_there_is_no_number",),
    "distributions/mcmc/test_sample": (
        "test_arviz_is_asked_for_by_name",
        "test_refusals",
        "test_windows_are_stans",
    ),
    "distributions/test_distributions": (
        "test_relaxed_draws_carry_gradients",
        "test_score_function_keeps_the_gradient_through_the_reward",
        "test_transformed",
    ),
    "execute/batching/test_batching": (
        "test_cells_of_one_depth_run_together",
        "test_random_programs",
        "test_stacks_of_many_values[True]",
        "test_check_compares_values_and_gradients[forward]",
    ),
    "execute/jit/test_jit": (),
    "execute/jit/test_jit_state": (),
    "execute/jit/test_optim_trace": (),
    "execute/native/test_attention": (
        "test_against_the_definition",
        "test_every_number_of_features",
    ),
    "execute/native/test_beside_numba": (),
    "execute/native/test_budget": (
        "test_a_plan_with_a_file_is_kept",
        "test_activations_in_8_bits_take_less_and_change_gradients_little",
        "test_effects_happen_once",
        "test_folders_that_will_not_do",
        "test_torch_compile_takes_a_budget",
        "test_zeros_and_what_is_not_finite_in_8_bits",
    ),
    "execute/native/test_cache": (),
    "execute/native/test_callers": ("test_arrays_of_any_dtype[bool]",),
    "execute/native/test_winograd": ("test_a_network_of_constants_uses_it",),
    "execute/native/test_conv": (
        "test_epilogue_of_phases",
        "test_layouts",
    ),
    "execute/native/test_cumulative": ("test_complex_sums",),
    "execute/native/test_eager_kernels": (
        "test_gradients_that_a_sum_repeats",
        "test_rules_of_users_run_as_python",
    ),
    "execute/native/test_fusion": ("test_the_plan_tells_its_steps_and_its_memory",),
    "execute/native/test_fuzz": (),
    "execute/native/test_gemm": ("test_einsum", "test_few_rows_or_columns[int32-avx2]"),
    "execute/native/test_linear_algebra": (),
    "execute/native/test_memory_safety": (),
    "execute/native/test_moves": (),
    "execute/native/test_op_table": (
        "test_the_samples_of_every_op[lgamma]",
        "test_the_samples_of_every_op[real]",
    ),
    "execute/native/test_pooling": ("test_windows_outside",),
    "execute/native/test_positions": ("test_special_values",),
    "execute/native/test_recompute": (),
    "execute/native/test_reductions": (),
    "execute/native/test_repeated_rows": (),
    "execute/native/test_runtime": (),
    "execute/native/test_scalars": ("test_division_of_far_numbers",),
    "execute/native/test_small_models": (),
    "execute/test_scheduler": ("test_the_chart",),
    "execute/test_static": (),
    "explain/test_batching": (),
    "explain/test_compiled": (),
    "explain/test_cost": (),
    "explain/test_draw": ("test_the_picture_is_a_function_of_the_graph",),
    "explain/test_missing": (),
    "explain/test_missing_in_programs": (),
    "explain/test_nonfinite": (),
    "explain/test_nonfinite_in_programs": (),
    "explain/test_precision": (),
    "explain/test_programs": ("test_every_answer",),
    "explorer/opened/test_models": (
        "test_a_live_page_runs_the_model_again",
        "test_nodes_say_what_the_document_says",
        "test_the_structure_has_every_node_with_those_inside",
    ),
    "explorer/opened/test_weights": ("test_faults_are_found",),
    "explorer/test_compare": (),
    "explorer/test_debugger": ("test_without_a_terminal_it_is_refused",),
    "explorer/test_findings": ("test_a_planted_fault_is_found",),
    "explorer/test_large": ("test_large_arrays_are_told_as_small_ones",),
    "explorer/test_names": (),
    "explorer/test_notebook": (),
    "explorer/test_odd": (
        "test_a_script_that_explores",
        "test_a_script_that_removes_the_folder_it_is_in",
    ),
    "explorer/test_page": (),
    "explorer/test_playground": (
        "test_a_run_that_is_no_function_of_its_state_is_noticed",
        "test_a_session_begins_with_what_there_is",
        "test_every_experiment_in_a_session",
        "test_gradients_by_layer_are_those_of_the_loss",
        "test_parameters_of_a_script",
        "test_penalties_and_recordings_leave_the_state_alone",
        "test_the_playground_refuses_scripts_that_are_not_there",
        "test_the_recorded_step_has_the_numbers_of_the_step",
        "test_units_that_are_no_number_are_not_dead",
    ),
    "explorer/test_repeats": ("test_repeats",),
    "explorer/test_questions": ("test_without_gradients_nothing_is_replayed",),
    "explorer/test_runs": ("test_a_folder_that_is_not_there",),
    "explorer/test_server": ("test_nothing_without_the_token",),
    "explorer/test_watch": ("test_how_it_ended", "test_histograms_count_what_is_finite", "test_going_back_is_exact"),
    "interop/onnx/test_backend_suite": (
        "test_a_case_of_every_family",
        "test_a_case_of_every_family[dft]",
        "test_a_case_of_every_family[ai_onnx_ml.tree_ensemble]",
        "test_a_case_of_every_family[quantizelinear]",
        "test_cases_of_files[simple]",
    ),
    "interop/onnx/test_classifiers": ("test_a_regressor_without_vectors_is_linear",),
    "interop/onnx/test_check": ("test_the_first_node_is_named_with_its_line",),
    "interop/onnx/test_export": (
        "test_arguments_that_do_not_fit",
        "test_check_names_the_first_value_that_differs",
        "test_models",
        "test_models[cnn]",
        "test_models[cond]",
        "test_names_and_parameters_are_those_given",
    ),
    "interop/onnx/test_hostile": ("test_mutants_run_or_are_refused[1]",),
    "interop/onnx/test_frozen": (),
    "interop/onnx/test_import": (),
    "interop/onnx/test_microsoft": ("test_integers_stand_for_numbers",),
    "interop/test_einops": ("test_without_einops",),
    "interop/test_scipy": ("test_results_are_arrays_of_their_own",),
    "interop/test_sklearn": ("test_without_scikit_learn",),
    "interop/test_tensorboard": (
        "test_branches_results_and_unknown_sizes",
        "test_several_scalars_are_runs_of_one_chart",
    ),
    "nn/test_layers": (
        "test_dtype_is_the_parameters",
        "test_self_attention_causal_and_layouts",
    ),
    "nn/test_nn": (),
    "nn/test_summary": ("test_a_module_called_twice_is_one_row",),
    "numpy/test_ndarray": ("test_views_share_elements",),
    "numpy/test_namespace": ("test_ufuncs_have_their_methods",),
    "ops/test_array_api": (),
    "ops/test_array_api_numpy": (),
    "ops/test_array_api_special": (),
    "ops/test_composites": (),
    "ops/test_formulas": ("test_symbolic",),
    "ops/test_gradient_helpers": (),
    "ops/test_inplace": (),
    "ops/test_losses": (),
    "ops/test_math_edges": (),
    "ops/test_numpy_functions": (
        "test_values_and_gradients[iscomplexobj]",
        "test_values_and_gradients[polysub]",
    ),
    "ops/test_numpy_protocol": (),
    "ops/test_op_table": (
        "test_derivatives[asin]",
        "test_forward_agrees_with_reference[random_poisson]",
    ),
    "ops/test_structure": ("test_aliases_of_every_kind_of_parameter",),
    "optim/test_adam8bit": ("test_levels_are_dense_around_zero",),
    "optim/test_optim": (),
    "passes/test_autocast": ("test_other_dtypes_are_refused",),
    "passes/test_passes": ("test_pruning",),
    "passes/test_strategies": ("test_strategies[matmul]",),
    "project/test_docs": (
        "test_docstrings[wengert.nn.layers.loss]",
        "test_docstrings[wengert.train.chart]",
        "test_docstrings[wengert.train.images]",
        "test_docstrings[wengert.train.progress]",
    ),
    "project/test_docstrings": (),
    "project/test_public_surface": ("test_pytorchs_names_are_in_their_namespace_alone",),
    "project/test_textbook": (),
    "solve/test_odeint": (
        "test_a_traced_loop_that_does_not_arrive_is_nan",
        "test_modules_and_backward",
        "test_order_of_convergence",
        "test_prothero_robinson",
    ),
    "solve/test_solve": (
        "test_brackets_act_element_by_element_and_take_roots_at_their_ends",
        "test_no_unknowns",
        "test_ridge_regression_against_normal_equations[CG]",
        "test_saddles_and_negative_curvature_are_left",
    ),
    "special_points/test_determinants": ("test_stacks_and_batches",),
    "special_points/test_special_points": (
        "test_derivatives[i1-reverse]",
        "test_even_powers_in_checkpoints_and_loops",
        "test_slope_of_sinc_keeps_its_digits_in_float32",
    ),
    "storage/test_storage": (),
    "symbolic/test_symbolic": (
        "test_textbook_derivatives",
        "test_the_derivative_is_an_ordinary_graph",
    ),
    "torch/test_amp": ("test_methods_operators_and_layers",),
    "torch/test_autograd": (
        "test_forward_mode",
        "test_gradcheck",
        "test_hooks_of_several_tensors",
        "test_variables_are_tensors",
    ),
    "torch/test_compat": (
        "test_settings_are_taken_and_kept",
        "test_the_processor_is_one_device_and_hubs_have_a_folder",
        "test_versions_compare_by_numbers",
        "test_what_needs_a_gpu_is_refused",
        "test_without_a_gpu_mixed_precision_is_off",
    ),
    "torch/test_convolution": ("test_gradients_of_convolutions_as_functions[1]",),
    "torch/test_data": (
        "test_checkpoint[None]",
        "test_csv",
        "test_summary_writer",
        "test_the_epoch_of_a_sampler_belongs_to_it",
    ),
    "torch/test_data_workers": ("test_seeds_of_numpys_generator_are_pytorchs",),
    "torch/test_distributions": (
        "test_constraints",
        "test_distributions_of_ones_own",
        "test_draws_follow_scipys_distributions",
        "test_expressions[d.utils.probs_to_logits(t([0.0, 0.5, 1.0]), is_binary=True)-want27]",
        "test_transforms[d.CorrCholeskyTransform()]",
    ),
    "torch/test_embedding": ("test_numbers_and_gradients_are_pytorchs[text15]",),
    "torch/test_fft": ("test_what_does_not_fit_is_refused",),
    "torch/test_foreach": ("test_other_operands",),
    "torch/test_func": (
        "test_numbers_and_derivatives_are_pytorchs[text20]",
        "test_modules_as_functions_of_their_parameters",
        "test_a_map_in_parts[2]",
    ),
    "torch/test_global_hooks": ("test_registrations", "test_what_is_held_can_be_looked_up_and_put"),
    "torch/test_library_names": (),
    "torch/test_graph_hooks": ("test_gradients_at_edges", "test_what_is_kept_goes_through_the_programs_functions"),
    "torch/test_init": ("test_refusals",),
    "torch/test_inner_paths": (
        "test_the_inner_module",
        "test_a_program_can_import_it[nn.modules.utils._single]",
        "test_choices_of_kernels_change_nothing",
        "test_nothing_is_built_or_profiled",
        "test_tensors_joined_and_taken_apart",
        "test_trees",
    ),
    "torch/test_library": ("test_an_operator_is_called_as_it_stands", "test_what_is_not_there"),
    "torch/test_linalg": ("test_results_have_pytorchs_names",),
    "torch/test_losses": ("test_refusals",),
    "torch/test_lr_scheduler": (
        "test_errors[OneCycleLR-arguments6-ValueError]",
        "test_steps_to_epochs_are_pytorchs[linear swa]",
    ),
    "torch/test_modules_a": ("test_modules_are_pytorchs[ReplicationPad2d]",),
    "torch/test_nn_utils": (
        "test_lazy_refusals",
        "test_numbers_and_gradients_are_pytorchs[text21]",
        "test_numbers_and_gradients_are_pytorchs[text6]",
        "test_other_tensors_for_parameters",
        "test_refusals",
    ),
    "torch/test_norms": ("test_refusals_and_nothing",),
    "torch/test_one_process": (
        "test_a_group_is_asked_for_before_it_is_used",
        "test_collectives_need_a_group",
        "test_functions_that_other_tools_look_at_stay_what_they_are",
        "test_memory_is_not_shared",
        "test_optimisers_over_processes_are_refused",
        "test_paths_at_which_functions_are_defined",
        "test_replicas_on_one_device",
    ),
    "torch/test_optim": (
        "test_complex_parameters_are_pairs_of_real_ones[Adadelta]",
        "test_complex_parameters_are_pairs_of_real_ones[Adamax]",
    ),
    "torch/test_pooling": ("test_empty_batches",),
    "torch/test_prune": ("test_masks[l1, a count]",),
    "torch/test_recurrent": (
        "test_numbers_and_gradients_are_pytorchs[rnn.invert_permutation(torch.tensor([2, 0, 1])), str(rnn.invert_permutation(None))]",  # noqa: E501
    ),
    "torch/test_serialization": (),
    "torch/test_sharing": ("test_set", "test_resize_stays_in_the_memory"),
    "torch/test_sparse": ("test_a_product_is_that_of_the_whole[matmul]",),
    "torch/test_special": (
        "test_numbers_and_derivatives_are_pytorchs[torch.special.hermite_polynomial_h(u.detach(), 1)]",
    ),
    "torch/test_storage": ("test_elements_and_bytes[shape1-dtype0]",),
    "torch/test_testing": ("test_not_close[actual7-expected7-options7-lengths]",),
    "torch/test_vision": ("test_numbers_and_gradients_are_pytorchs[text29]",),
    "train/test_accumulate": ("test_what_it_refuses",),
    "train/test_callbacks": (
        "test_an_exception_leaves_training_weights",
        "test_rates_of_groups",
    ),
    "train/test_checkpoints": (
        "test_all_kinds_of_parts",
        "test_the_pointer",
    ),
    "train/test_finder": ("test_what_is_refused",),
    "train/test_fit": ("test_schedules[wengert]",),
    "train/test_metrics": ("test_no_targets",),
    "train/test_resume": ("test_logs_of_a_run_that_goes_on",),
    "transforms/test_batch": (),
    "transforms/test_broadcast_in_traces": (),
    "transforms/test_checkpoint": ("test_named_values_are_kept",),
    "transforms/test_elimination": ("test_against_differences",),
    "transforms/test_functional": (),
    "transforms/test_jacobian": (),
    "transforms/test_sparsity": ("test_nothing_and_errors",),
    "transforms/test_structural_zeros": (),
    "transforms/test_taylor": ("test_the_table_against_nested_forward_mode",),
}
_HERE = Path(__file__).parent


def _fast_tests(path: Path) -> tuple[str, ...] | None:
    """The fast tests of a file, () for all of them; None where it has none."""
    return FAST.get(path.relative_to(_HERE).with_suffix("").as_posix())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m fast` no other file is even imported."""
    is_other = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if config.option.markexpr == "fast" and is_other and _fast_tests(collection_path) is None else None


# Tests that ask the same of many cases, drawn programs or combinations of values. One case of so many runs every time,
# and every value that stands in several combinations is in one of them; the others are marked slow.
SELDOM: dict[str, int] = {
    "core/test_documents::test_mutants_are_refused_or_run_the_same_both_ways": 2,
    "crossings/test_crossings::test_a_crossing_means_what_numpy_means_or_is_refused": 6,
    "distribute/test_jax_job::test_an_error_that_is_caught_in_a_pipeline_ends_the_job": 2,
    "distribute/test_jax_job::test_ranks_that_do_not_meet_end_the_job": 3,
    "distribute/test_moving_state::test_plans_in_turns": 2,
    "distribute/test_pipeline::test_budgets_of_memory": 3,
    "distribute/test_training::test_losses_are_those_of_one_process": 4,
    "distribute/test_xla::test_collectives": 2,
    "distribute/test_xla::test_losses_are_those_of_one_process": 2,
    "execute/jit/test_jit_around::test_drawn_programs": 3,
    "execute/jit/test_jit_around::test_what_is_read_is_seen_when_it_changes": 2,
    "execute/jit/test_looking::test_a_look_changes_nothing_and_the_first_step_is_the_same": 3,
    "execute/native/test_attention::test_against_the_definition": 2,
    "execute/native/test_attention::test_half_precision": 2,
    "execute/native/test_checks::test_classes_of_any_dtype": 2,
    "execute/native/test_checks::test_the_error_is_that_of_eager_execution": 2,
    "execute/native/test_conv::test_half_precision": 2,
    "execute/native/test_conv::test_products": 3,
    "execute/native/test_cumulative::test_running": 2,
    "execute/native/test_denormals::test_nothing_is_flushed": 2,
    "execute/native/test_eager_kernels::test_results_and_gradients_are_those_of_numpy": 2,
    "execute/native/test_fuzz_calls::test_every_call_gives_the_same": 2,
    "execute/native/test_fuzz_calls::test_every_call_gives_the_same_in_every_dtype": 2,
    "execute/native/test_gather::test_gather": 2,
    "execute/native/test_gather::test_index": 2,
    "execute/native/test_gemm::test_few_rows_or_columns": 2,
    "execute/native/test_plan_cache::test_random_programs": 2,
    "execute/native/test_planning_cost::test_a_longer_loop_costs_as_many_calls_a_step": 2,
    "execute/native/test_positions::test_positions": 2,
    "execute/native/test_random_numbers::test_the_bits_of_the_definitions": 2,
    "execute/native/test_reductions::test_against_numpy": 4,
    "execute/native/test_scalars::test_sums_of_many_terms": 2,
    "execute/native/test_stress::test_training_is_that_of_eager_execution": 2,
    "execute/native/test_unit_order::test_groups_of_random_programs_have_an_order": 2,
    "execute/xla/test_special::test_counts_are_eager_ones": 3,
    "execute/xla/test_special::test_derivatives_of_the_incomplete_beta_function": 3,
    "execute/xla/test_special::test_derivatives_of_the_incomplete_gamma_function": 3,
    "execute/xla/test_special::test_gamma_numbers_are_eager_ones_to_the_last_bits": 3,
    "execute/xla/test_special::test_second_derivatives_run_without_python": 3,
    "explorer/browser/test_demos::test_lessons_can_be_read_at_every_size": 4,
    "interop/test_nutpie::test_densities_are_pymcs_far_out_too": 3,
    "ops/test_fft::test_derivatives_to_second_order": 2,
    "solve/test_odeint::test_f_may_write_to_its_arguments": 2,
    "solve/test_odeint::test_gradients_in_everything": 2,
    "special_points/test_special_points::test_derivatives": 3,
    "torch/test_data_workers::test_an_error_has_the_users_line_first_and_the_workers_trace": 3,
    "torch/test_data_workers::test_an_interrupt_ends_everything": 2,
    "torch/test_data_workers::test_an_iterable_dataset_goes_on_with_as_many_workers": 3,
    "torch/test_data_workers::test_batches_are_those_of_no_workers": 3,
    "torch/test_data_workers::test_goes_on_with_any_number_of_workers": 3,
    "train/test_resume::test_an_interrupted_run_goes_on": 2,
    "transforms/test_functional::test_derivatives_in_a_leaf_carry_gradients_to_it": 2,
    "transforms/test_fuzz::test_seeded_programs_have_one_value_and_one_gradient": 2,
    "transforms/test_literature::test_equal_to_the_peers": 2,
    "transforms/test_transform_fuzz::test_programs_agree_with_nilpotent_numbers": 3,
}


def _asked_every_time(cases: list[pytest.Item], of: int) -> Iterator[pytest.Item]:
    """Yield one of so many cases, by steps of the golden ratio, which fall in with no order of combinations."""
    values = [{f"{name}={value!r}" for name, value in case.callspec.params.items()} for case in cases]  # type: ignore[attr-defined]
    times = Counter(value for each in values for value in each)
    missing = {value for value, count in times.items() if count > 1}
    for turn, (case, each) in enumerate(zip(cases, values, strict=True)):
        if turn * 0.6180339887 % 1 < 1 / of:
            missing -= each
            yield case
    for case, each in zip(cases, values, strict=True):
        if missing & each:
            missing -= each
            yield case


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Workers refuse lists of tests that differ from one another.
    if places := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"tests named by places in memory, as no two processes name them: {places}")
    wanted = config.option.markexpr
    if "fast" in wanted:
        _mark_fast(items)
    if "slow" in wanted:
        many: dict[str, list[pytest.Item]] = {}
        for item in items:
            function = item.nodeid.partition("[")[0].removeprefix("tests/").replace(".py::", "::")
            if function in SELDOM and not item.get_closest_marker("slow"):
                many.setdefault(function, []).append(item)
        for function, cases in many.items():
            every_time = {id(case) for case in _asked_every_time(cases, SELDOM[function])}
            for case in cases:
                if id(case) not in every_time:
                    case.add_marker("slow")


def _mark_fast(items: list[pytest.Item]) -> None:
    begun = set()
    for item in items:
        tests = _fast_tests(item.path)
        if tests is None:
            continue
        function = item.nodeid.partition("[")[0]
        is_first = function not in begun
        begun.add(function)
        if item.name in tests or (is_first and (not tests or function.rpartition("::")[2] in tests)):
            item.add_marker("fast")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tens of thousands of collected tests live to the end: no collection of garbage has to look through them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Settings of the process end with the test that made them: examples in the docs make some, without a word."""
    yield
    kernels.kernels, threads, dtype = SETTINGS
    if wg.get_num_threads() != threads:
        wg.set_num_threads(threads)
    if wg.get_default_dtype() != dtype:
        wg.set_default_dtype(dtype)


def pytest_configure(config: pytest.Config) -> None:
    """Workers begin together, and each would compile the whole package: it is compiled once, before they do."""
    workers = getattr(config.option, "numprocesses", None)
    if workers and not sys.dont_write_bytecode and not hasattr(config, "workerinput"):
        compileall.compile_dir(_HERE.parent / "src", quiet=2, workers=workers)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return
    for variable, is_own in (("WENGERT_CACHE_DIR", _OWN), ("WENGERT_TESTS_DOCUMENTS", _OWN_DOCUMENTS)):
        if is_own:
            shutil.rmtree(os.environ[variable], ignore_errors=True)
