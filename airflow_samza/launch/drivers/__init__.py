"""Drivers elsewhere than on this host: spark-submit and services start them, and pods are what some of them run in."""
