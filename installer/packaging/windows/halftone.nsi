; The Windows package: for one user, without an administrator. The lists of files are made by installer/packaging/windows.py.
Unicode true
Target amd64-unicode
!include "MUI2.nsh"
!include "FileFunc.nsh"

Name "Halftone"
OutFile "@OUT@"
InstallDir "$LOCALAPPDATA\Programs\Halftone"
InstallDirRegKey HKCU "Software\Halftone" "InstallDir"
RequestExecutionLevel user
SetCompressor /SOLID lzma
ManifestDPIAware true
BrandingText "Halftone @VERSION@"

!define UNINSTALL "Software\Microsoft\Windows\CurrentVersion\Uninstall\Halftone"
!define CLASS "Software\Classes\Halftone.Model"
!define MUI_ICON "@ICON@"
!define MUI_UNICON "@ICON@"
!define MUI_FINISHPAGE_RUN
!define MUI_FINISHPAGE_RUN_FUNCTION Start

!insertmacro MUI_PAGE_DIRECTORY
!insertmacro MUI_PAGE_INSTFILES
!insertmacro MUI_PAGE_FINISH
!insertmacro MUI_UNPAGE_CONFIRM
!insertmacro MUI_UNPAGE_INSTFILES
!insertmacro MUI_LANGUAGE "English"
!insertmacro MUI_LANGUAGE "SimpChinese"

VIProductVersion "@VERSION@.0"
VIAddVersionKey "ProductName" "Halftone"
VIAddVersionKey "FileDescription" "Halftone"
VIAddVersionKey "FileVersion" "@VERSION@"
VIAddVersionKey "LegalCopyright" "Apache-2.0"

Function Start
  Exec '"$INSTDIR\halftone.cmd"'
FunctionEnd

Section
  SetShellVarContext current
  ; An older version goes first, by its own list of files.
  ReadRegStr $0 HKCU "Software\Halftone" "InstallDir"
  StrCmp $0 "" fresh
  IfFileExists "$0\uninstall.exe" 0 fresh
    CopyFiles /SILENT "$0\uninstall.exe" "$PLUGINSDIR\older.exe"
    ExecWait '"$PLUGINSDIR\older.exe" /S _?=$0'
    Delete "$0\uninstall.exe"
  fresh:
@INSTALL@
  SetOutPath "$INSTDIR"
  WriteUninstaller "$INSTDIR\uninstall.exe"
  CreateShortCut "$SMPROGRAMS\Halftone.lnk" "$INSTDIR\halftone.cmd" "" "$INSTDIR\halftone.ico" 0 SW_SHOWMINIMIZED
  WriteRegStr HKCU "Software\Halftone" "InstallDir" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayName" "Halftone"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayVersion" "@VERSION@"
  WriteRegStr HKCU "${UNINSTALL}" "Publisher" "Halftone developers"
  WriteRegStr HKCU "${UNINSTALL}" "DisplayIcon" "$INSTDIR\halftone.ico"
  WriteRegStr HKCU "${UNINSTALL}" "InstallLocation" "$INSTDIR"
  WriteRegStr HKCU "${UNINSTALL}" "UninstallString" '"$INSTDIR\uninstall.exe"'
  WriteRegStr HKCU "${UNINSTALL}" "QuietUninstallString" '"$INSTDIR\uninstall.exe" /S'
  WriteRegDWORD HKCU "${UNINSTALL}" "NoModify" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "NoRepair" 1
  WriteRegDWORD HKCU "${UNINSTALL}" "EstimatedSize" @KILOBYTES@
  ; Offered in "Open with"; what opens such files by default stays as it is.
  WriteRegStr HKCU "${CLASS}" "" "Model weights"
  WriteRegStr HKCU "${CLASS}\DefaultIcon" "" "$INSTDIR\halftone.ico"
  WriteRegStr HKCU "${CLASS}\shell\open\command" "" '"$INSTDIR\halftone.cmd" gui "%1"'
  WriteRegNone HKCU "Software\Classes\.safetensors\OpenWithProgids" "Halftone.Model"
  WriteRegNone HKCU "Software\Classes\.gguf\OpenWithProgids" "Halftone.Model"
SectionEnd

Section "Uninstall"
  SetShellVarContext current
@UNINSTALL@
  Delete "$INSTDIR\uninstall.exe"
  RMDir "$INSTDIR"
  Delete "$SMPROGRAMS\Halftone.lnk"
  DeleteRegKey HKCU "${UNINSTALL}"
  DeleteRegKey HKCU "${CLASS}"
  DeleteRegValue HKCU "Software\Classes\.safetensors\OpenWithProgids" "Halftone.Model"
  DeleteRegKey /ifempty HKCU "Software\Classes\.safetensors\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "Software\Classes\.safetensors"
  DeleteRegValue HKCU "Software\Classes\.gguf\OpenWithProgids" "Halftone.Model"
  DeleteRegKey /ifempty HKCU "Software\Classes\.gguf\OpenWithProgids"
  DeleteRegKey /ifempty HKCU "Software\Classes\.gguf"
  DeleteRegKey HKCU "Software\Halftone"
SectionEnd
