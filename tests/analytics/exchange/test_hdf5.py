"""Files written as bytes are read, and can be changed, by the HDF5 library."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from analytics.exchange import hdf5

INT, SHORT_TEXT = np.dtype(np.int64), np.dtype("S5")
TYPES = [np.dtype(name) for name in ("int8", "int64", "float32", "bool")]


def written(path: Path, groups: int) -> Path:
    """A file of groups ``g0``, ``g1``, …, each with its number twice, a text, and a link to one common dataset."""
    template = hdf5.Template()
    own, group = hdf5.dataset(INT, (2, 1)), hdf5.group({"number": INT, "text": SHORT_TEXT}, ["own", "common"])
    first, second = template.add(own), template.add(group)
    template.link(second + group.places["own"], first)
    template.write(second + group.places["text"], b"quart")
    with path.open("xb") as out:
        file = hdf5.File(out)
        common = file.put(hdf5.dataset(np.dtype(np.int8), (3,)).image)
        template.write(second + group.places["common"], common.to_bytes(hdf5.WORD, "little"))
        copies, numbers = template.copies(groups, file.end), np.arange(groups)
        hdf5.write_values(copies, second + group.places["number"], numbers)
        hdf5.write_values(copies, first + own.places["data"], np.stack((numbers, -numbers), axis=1))
        begin = file.put(copies.data) + second
        file.count_links(common, groups)
        file.finish("g", begin + copies.shape[1] * numbers)
    return path


@pytest.mark.parametrize("groups", [0, 1, 11, hdf5.ENTRIES, 2 * hdf5.ENTRIES + 1, 10_001])
def test_the_library_finds_every_group(groups: int, tmp_path: Path) -> None:
    with h5py.File(written(tmp_path / "x.h5", groups)) as file:
        assert list(file) == sorted(f"g{i}" for i in range(groups))
        for i in range(0, groups, 1 + groups // 300):
            group = file[f"g{i}"]
            assert dict(group.attrs) == {"number": i, "text": b"quart"}
            assert group["own"][()].tolist() == [[i], [-i]]
            assert group["common"][()].tolist() == [0, 0, 0]
            assert h5py.h5o.get_info(group["common"].id).rc == groups


def test_more_groups_than_one_tree_node_points_to_have_larger_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hdf5, "ENTRIES", 2)
    monkeypatch.setattr(hdf5, "MOST_NODES", 6)
    with h5py.File(written(tmp_path / "x.h5", 90)) as file:
        assert [file[f"g{i}"].attrs["number"] for i in range(90)] == [*range(90)]


def test_the_library_can_change_the_file(tmp_path: Path) -> None:
    path = written(tmp_path / "x.h5", 700)
    with h5py.File(path, "a") as file:
        del file["g7"]
        for i in range(700, 1500):
            file.create_group(f"g{i}")["mine"] = i
        file["g8"].attrs["note"] = "n" * 1000
        file["g8/own"][0, 0] = 99
    with h5py.File(path) as file:
        assert list(file) == sorted(f"g{i}" for i in range(1500) if i != 7)
        assert file["g8/own"][()].tolist() == [[99], [-8]]
        assert file["g8"].attrs["note"] == "n" * 1000
        assert file["g1499/mine"][()] == 1499
        assert file["g699"].attrs["number"] == 699


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("shape", [(1,), (5, 17), (3, 1, 2)])
def test_datasets_are_those_of_numpy(dtype: np.dtype[np.generic], shape: tuple[int, ...], tmp_path: Path) -> None:
    values = np.random.default_rng(1).integers(-100, 100, shape).astype(dtype)
    made, template = hdf5.dataset(dtype, shape), hdf5.Template()
    template.add(made)
    template.write(made.places["data"], values.tobytes())
    with (tmp_path / "x.h5").open("xb") as out:
        file = hdf5.File(out)
        file.finish("g", np.array([file.put(template.copies(1, file.end).data)]))
    with h5py.File(tmp_path / "x.h5") as found:
        assert found["g0"].dtype == dtype
        assert np.array_equal(found["g0"][()], values)
