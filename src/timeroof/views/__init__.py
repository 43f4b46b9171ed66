"""What people see: pictures, pages, tables, the terminal."""
