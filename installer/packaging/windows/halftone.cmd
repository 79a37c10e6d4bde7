@echo off
rem Starts Halftone from its Windows package: "halftone.cmd", or "halftone.cmd generate ..." in a console. The program's folder is
rem never written to: Python, the environment and Python's caches lie in the folder that HALFTONE_HOME names.
setlocal
chcp 65001 >nul
set "PYTHONHOME="
set "PYTHONPATH="
set "PYTHONUTF8=1"
set "HALFTONE_STARTER=halftone"
if not defined HALFTONE_HOME set "HALFTONE_HOME=%LOCALAPPDATA%\halftone-launcher\package"
set "PYTHONPYCACHEPREFIX=%HALFTONE_HOME%\cache\bytecode"
set "UV_PYTHON_INSTALL_DIR=%HALFTONE_HOME%\python"
set "UV_PYTHON_INSTALL_BIN=0"
set "UV_PYTHON_INSTALL_REGISTRY=0"
set "HALFTONE_UV=%~dp0uv\uv.exe"
set "HALFTONE_PYTHON="
for /f "usebackq delims=" %%P in (`call "%HALFTONE_UV%" python find --no-project --no-config ">=3.11,<3.15" 2^>nul`) do set "HALFTONE_PYTHON=%%P"
if not defined HALFTONE_PYTHON (
    echo Halftone sets up Python once, in %UV_PYTHON_INSTALL_DIR%
    "%HALFTONE_UV%" python install --no-config 3.12
    for /f "usebackq delims=" %%P in (`call "%HALFTONE_UV%" python find --no-project --no-config ">=3.11,<3.15" 2^>nul`) do set "HALFTONE_PYTHON=%%P"
)
if not defined HALFTONE_PYTHON (
    echo Halftone could not set up Python: check the network, or install Python 3.12 from python.org, and start again.
    if "%~1"=="" pause
    exit /b 1
)
if not "%~1"=="" if /i not "%~1"=="gui" goto run
rem The console shows the first set-up and goes away once the window can open.
"%HALFTONE_PYTHON%" "%~dp0installer\launch.py" ready
if errorlevel 1 goto failed
for %%W in ("%HALFTONE_PYTHON%") do if exist "%%~dpWpythonw.exe" (
    start "" "%%~dpWpythonw.exe" "%~dp0installer\launch.py" %*
    exit /b 0
)
:run
"%HALFTONE_PYTHON%" "%~dp0installer\launch.py" %*
exit /b %ERRORLEVEL%
:failed
pause
exit /b 1
