"""Slices of scanners, NIfTI and DICOM, written here with the packages that read them; skipped where a package is not installed."""
import numpy as np
import pytest

from pertnb.data import pictures
from pertnb.experiments import own_files

from test_channels import check_refused
from test_cli import said # the fixture that runs a command in this process


def scan(kind=np.int16, high=2000, size=(20, 24)): return np.random.default_rng(0).integers(0, high, size).astype(kind)


def read(path):
    "The picture, whose header says its shape."
    a = pictures.read_picture(path)
    assert pictures.read_header(path).shape == a.shape
    return a


# NIfTI


@pytest.fixture
def nibabel(): return pytest.importorskip("nibabel", reason="nibabel is not installed: pip install nibabel")


def write_nifti(nibabel, path, a, slope=None):
    image = nibabel.Nifti1Image(a, np.eye(4))
    if slope: image.header.set_slope_inter(*slope)
    nibabel.save(image, path)
    return path


@pytest.mark.parametrize("suffix", (".nii", ".nii.gz", ".NII"))
@pytest.mark.parametrize("kind", (np.float32, np.float64, np.int16, np.uint8))
def test_nifti(nibabel, tmp_path, suffix, kind):
    "x is the column, y the row; a third axis of length 1 is a slice as well."
    a = scan(kind, 200)
    for values in (a, a[..., None], a[..., None, None]):
        write_nifti(nibabel, tmp_path / f"a{suffix.lower()}", values).rename(tmp_path / f"b{suffix}")
        back = read(tmp_path / f"b{suffix}")
        assert back.dtype == (np.uint8 if kind == np.uint8 else np.float32) and (back == a.T[None]).all()


def test_nifti_scaled(nibabel, tmp_path):
    assert np.allclose(read(write_nifti(nibabel, tmp_path / "a.nii", scan(), (.5, -10))), scan().T[None] * .5 - 10)


def test_nifti_of_several_channels(nibabel, tmp_path):
    a = np.random.default_rng(0).normal(size=(20, 24, 1, 1, 3)).astype(np.float32)
    assert (read(write_nifti(nibabel, tmp_path / "a.nii", a)) == a[:, :, 0, 0].transpose(2, 1, 0)).all()


BAD_NIFTI = {"volume": (lambda a: np.stack([a] * 9, 2), "holds 9 slices: save one slice per file"), "three slices": (lambda a: np.stack([a] * 3, 2), "holds 3 slices"),
             "times": (lambda a: np.stack([a] * 5, 2)[:, :, None], "holds 5 slices"), "complex": (lambda a: a.astype(np.complex64), "not a kind of real number"),
             "NaN": (lambda a: np.where(a > 99, np.nan, a).astype(np.float32), "not finite")}


@pytest.mark.parametrize("name", BAD_NIFTI)
def test_bad_nifti(nibabel, tmp_path, name):
    make, part = BAD_NIFTI[name]
    path = write_nifti(nibabel, tmp_path / "a.nii", make(scan()))
    check_refused(path, part, by_header=name != "NaN")


@pytest.mark.parametrize("suffix", (".nii", ".nii.gz"))
def test_damaged_nifti(nibabel, tmp_path, suffix):
    path = write_nifti(nibabel, tmp_path / f"a{suffix}", scan())
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:100]):
        path.write_bytes(content)
        check_refused(path, "can't be read as an image")
    path.write_bytes(whole[:-20])
    check_refused(path, "can't be read as an image", by_header=False)
    path.write_bytes(whole[:400])
    check_refused(path, "can't be read as an image", by_header=suffix == ".nii.gz") # 352 bytes are the header, if they are not compressed


# DICOM


@pytest.fixture
def dicom(tmp_path):
    "dicom(array, photometric, **tags) -> path of a file that holds it."
    pydicom = pytest.importorskip("pydicom", reason="pydicom is not installed: pip install pydicom")
    def write(a, kind="MONOCHROME2", path=tmp_path / "a.dcm", **tags):
        meta = pydicom.dataset.FileMetaDataset()
        meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = pydicom.uid.CTImageStorage, pydicom.uid.generate_uid()
        meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
        data = pydicom.dataset.FileDataset(str(path), {}, file_meta=meta, preamble=bytes(128))
        data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
        data.PhotometricInterpretation, data.Rows, data.Columns = kind, a.shape[0], a.shape[1]
        data.SamplesPerPixel = 3 if a.ndim == 3 else 1
        if a.ndim == 3: data.PlanarConfiguration = 0
        data.BitsAllocated = data.BitsStored = 8 * a.dtype.itemsize
        data.HighBit, data.PixelRepresentation, data.PixelData = data.BitsStored - 1, int(a.dtype.kind == "i"), a.tobytes()
        for name, value in tags.items(): setattr(data, name, value)
        data.save_as(path, enforce_file_format=True)
        return path
    return write


@pytest.mark.parametrize("kind", (np.int16, np.uint16))
@pytest.mark.parametrize("slope, intercept", ((1, -1024), (.5, 3), (None, None)))
def test_dicom(dicom, kind, slope, intercept):
    "Hounsfield units of 16 bits; a slope that is there but empty is 1."
    back = read(dicom(scan(kind), RescaleSlope=slope, RescaleIntercept=intercept))
    assert back.dtype == np.float32 and np.allclose(back, scan()[None] * (slope or 1) + (intercept or 0))


def test_dicom_bytes(dicom):
    "They stay bytes; where 0 is white they are turned round."
    a = scan(np.uint8, 256)
    assert read(dicom(a)).dtype == np.uint8 and (read(dicom(a)) == a[None]).all()
    assert (read(dicom(a, "MONOCHROME1")) == 255 - a[None]).all()
    assert (read(dicom(scan(), "MONOCHROME1")) == -scan()[None]).all()


def test_dicom_colours(dicom):
    a = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    assert (read(dicom(a, "RGB")) == a.transpose(2, 0, 1)).all()
    table = {f"{c}PaletteColorLookupTableDescriptor": [256, 0, 8] for c in ("Red", "Green", "Blue")}
    table |= {f"{c}PaletteColorLookupTableData": bytes((v * k) % 256 for v in range(256)) for k, c in enumerate(("Red", "Green", "Blue"), 1)}
    grey = scan(np.uint8, 256)
    assert (read(dicom(grey, "PALETTE COLOR", **table)) == np.stack([grey * np.uint8(k) for k in (1, 2, 3)])).all()


def test_bad_dicom(dicom, tmp_path):
    path = dicom(scan())
    whole = path.read_bytes()
    for content in (b"", b"hello", whole[:200]):
        path.write_bytes(content)
        check_refused(path, "can't be read as an image")
    path.write_bytes(whole[:-200])
    check_refused(path, "can't be read as an image", by_header=False)
    check_refused(dicom(scan(size=(60, 24)), NumberOfFrames=3, Rows=20), "holds 3 pictures: save one slice per file")


# from slices to pairs


def write_folder(folder, suffix, write):
    "42 pairs: a slice, and the same one a third as bright."
    from test_channels import images
    rng = np.random.default_rng(0)
    for i in range(42):
        a = images(rng, (1, 20, 24))[0].astype(np.int16) * 8
        for part, values in (("clean", a), ("perturbed", (a / rng.uniform(1.5, 3)).astype(np.int16))):
            path = folder / part / ("a", "b")[i % 2] / f"slice{i}{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(values, path)


@pytest.mark.parametrize("suffix", (".nii.gz", ".dcm"))
def test_pairs_of_slices(said, request, tmp_path, suffix):
    "`learn --check` takes them, on one scale; the images are not square, and a renamed PNG is refused."
    if suffix == ".dcm": write = lambda a, path: request.getfixturevalue("dicom")(a, path=path, RescaleSlope=1, RescaleIntercept=-1024)
    else: write = lambda a, path: write_nifti(request.getfixturevalue("nibabel"), path, a)
    folder = tmp_path / "scans"
    write_folder(folder, suffix, write)
    code, out, err = said("learn", folder, "--check")
    low, high = (-1024, "") if suffix == ".dcm" else (0, 2047)
    assert (code, err) == (0, "") and f"values from {low} to {high}" in out
    own = own_files.read_pairs(folder)
    assert own.images.shape[1:] == ((1, 20, 24) if suffix == ".dcm" else (1, 24, 20)) and own.images.max() > 200 and len(own.classes) == 2
    next((folder / "clean").rglob(f"*{suffix}")).write_bytes(b"\x89PNG\r\n\x1a\n")
    code, out, err = said("learn", folder, "--check")
    assert code == 1 and "can't be read as an image" in err and err.count("\n") == 1
