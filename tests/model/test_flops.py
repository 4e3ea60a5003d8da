"""Operations that are counted."""

import torch

from headtohead.model.flops import count_flops


def test_a_product_counts_two_for_each_multiply_add():
    a, b = torch.ones(3, 4, 5), torch.ones(3, 5, 6)
    assert count_flops(lambda: a @ b) == 2 * 3 * 4 * 5 * 6


def test_a_triangular_system_counts_half_of_the_product_with_its_matrix():
    a, b = torch.eye(4).expand(3, 4, 4), torch.ones(3, 4, 6)
    solve = lambda: torch.linalg.solve_triangular(a, b, upper=False)
    assert count_flops(solve) == 3 * 4 * 4 * 6
