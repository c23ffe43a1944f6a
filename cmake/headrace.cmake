# What every target of the project shares: the language, the warnings, the sanitizers.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

add_library(headrace_flags INTERFACE)
target_compile_features(headrace_flags INTERFACE cxx_std_20)
target_include_directories(headrace_flags INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
# Contraction is off so that a product and a sum round twice wherever the text does not say fma.
target_compile_options(headrace_flags INTERFACE -ffp-contract=off -fno-math-errno)

add_library(headrace_warnings INTERFACE)
target_compile_options(headrace_warnings INTERFACE -Wall -Wextra -Wconversion -Wshadow
                       $<$<CXX_COMPILER_ID:GNU>:-Werror>  # others warn of other things
                       -Wno-missing-field-initializers)  # designated initializers name what differs

if(HEADRACE_SANITIZE)
  target_compile_options(headrace_flags INTERFACE -fsanitize=${HEADRACE_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(headrace_flags INTERFACE -fsanitize=${HEADRACE_SANITIZE})
endif()

# headrace_library(io LINK ... PRIVATE ...): one static library from every .cpp of the calling folder.
function(headrace_library folder)
  cmake_parse_arguments(ARG "" "" "LINK;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.h)
  add_library(headrace_${folder} STATIC ${sources})
  set_target_properties(headrace_${folder} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(headrace_${folder} PUBLIC headrace_flags Threads::Threads ${ARG_LINK}
                        PRIVATE $<BUILD_INTERFACE:headrace_warnings> fmt::fmt ${ARG_PRIVATE})
endfunction()

# headrace_test(io LINK ...): one test binary from every .cpp of the calling folder.
# Tests whose name starts with Stress carry the label "stress" and are left out of the ordinary run.
function(headrace_test folder)
  cmake_parse_arguments(ARG "" "" "LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp *.h)
  if(NOT sources MATCHES "_test.cpp")
    return()
  endif()
  add_executable(${folder}_test ${sources})
  set_target_properties(${folder}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${folder}_test PRIVATE headrace_flags headrace_warnings fmt::fmt
                        GTest::gtest GTest::gtest_main ${ARG_LINK})
  if(HEADRACE_SANITIZE MATCHES address)  # g++ 12 then warns of std::function inside of <regex>
    target_compile_options(${folder}_test PRIVATE -Wno-maybe-uninitialized)
  endif()
  target_compile_definitions(${folder}_test PRIVATE HEADRACE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                             HEADRACE_BINARY_DIR="${CMAKE_BINARY_DIR}")
  set(seconds 300)
  if(HEADRACE_SANITIZE)
    set(seconds 900)
  endif()
  gtest_discover_tests(${folder}_test TEST_PREFIX ${folder}. TEST_FILTER -Stress*
                       DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${seconds})
  gtest_discover_tests(${folder}_test TEST_PREFIX ${folder}. TEST_FILTER Stress* TEST_LIST ${folder}_stress
                       DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 3600 LABELS stress)
endfunction()
