@echo off
rem Opens Halftone on Windows: double-click, or "halftone.bat generate ..." in a console.
setlocal
chcp 65001 >nul
rem A PYTHONHOME from elsewhere would stop Python before the launcher could ignore it.
set "PYTHONHOME="
set "PYTHONPATH="
set "PYTHONUTF8=1"
set "HALFTONE_WRAPPER=1"
set "HALFTONE_PYTHON="
rem The py launcher knows the installed versions; "python" may be the Store's stub, which -c tells from a real one.
for %%P in ("py -3.12" "py -3.11" "py -3" "python" "python3") do (
    if not defined HALFTONE_PYTHON (
        %%~P -c "" >nul 2>nul && set "HALFTONE_PYTHON=%%~P"
    )
)
if not defined HALFTONE_PYTHON (
    echo Halftone needs Python 3.11 or newer and found none; nothing was changed: install Python 3.12 from python.org, tick "Add to PATH", and start again.
    if "%~1"=="" pause
    exit /b 1
)
%HALFTONE_PYTHON% "%~dp0launch.py" %*
set "HALFTONE_STATUS=%ERRORLEVEL%"
rem Double-clicked, the console would close and take the sentence with it.
if not "%HALFTONE_STATUS%"=="0" if "%~1"=="" pause
exit /b %HALFTONE_STATUS%
