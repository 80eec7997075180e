"""The jar that shadows Hadoop's defaults."""

from __future__ import annotations

import zipfile
from xml.etree import ElementTree as ET

from tidemark.stack.install import hadoop_defaults_jar


def test_the_jar_is_reproducible_and_written_once(tmp_path):
    path = hadoop_defaults_jar.write_into(tmp_path / "new" / "folder")
    written = path.stat().st_mtime_ns
    assert path.read_bytes() == hadoop_defaults_jar.content()
    assert hadoop_defaults_jar.write_into(path.parent) == path
    assert path.stat().st_mtime_ns == written
    assert [one.name for one in path.parent.iterdir()] == [hadoop_defaults_jar.name()]


def test_its_resources_have_no_properties(tmp_path):
    with zipfile.ZipFile(hadoop_defaults_jar.write_into(tmp_path)) as jar:
        assert sorted(jar.namelist()) == ["mapred-default.xml", "yarn-default.xml"]
        for name in jar.namelist():
            root = ET.fromstring(jar.read(name))
            assert (root.tag, list(root)) == ("configuration", [])
