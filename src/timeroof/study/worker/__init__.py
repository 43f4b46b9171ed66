"""The process that runs cases: started by the driver, it speaks JSON lines and dies with it."""
