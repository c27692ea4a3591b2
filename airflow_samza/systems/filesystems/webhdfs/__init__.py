"""HDFS over its HTTP interface (WebHDFS), so that no libhdfs and no Java is needed to read and write it."""
